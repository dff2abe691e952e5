//! Causes of slow GPUs.

use phasemeter_diagnoses::{Lag, SIMILAR};
use phasemeter_policy::Gpu;

/// Difference from the others, in kelvins, from which a slow GPU is hot. An assumption.
pub(crate) const HOTTER: f64 = 15.0;

/// What slows a GPU.
#[derive(Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// Its power limit, below that of others of its model, or of the model.
    Limit { limit: f64, highest: f64, of: &'static str },
    /// Heat, for a share of the time with work if that was recorded.
    Heat { share: Option<f64> },
    /// The power supply, for a share of the time with work.
    Supply { share: f64 },
    /// Unknown: it is behind the others.
    Unknown { lag: Lag, gpu: &'a Gpu },
}

impl Cause<'_> {
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SIMILAR;
        match (self, other) {
            (
                Self::Limit { limit, highest, .. },
                Self::Limit { limit: other, highest: others, .. },
            ) => limit == other && highest == others,
            (Self::Heat { share: a }, Self::Heat { share: b }) => {
                a.is_some() == b.is_some() && near(a.unwrap_or(0.0), b.unwrap_or(0.0))
            }
            (Self::Supply { share: a }, Self::Supply { share: b }) => near(*a, *b),
            (
                Self::Unknown { lag: Lag::Clock(a, _), gpu },
                Self::Unknown { lag: Lag::Clock(b, _), gpu: other },
            )
            | (
                Self::Unknown { lag: Lag::Power(a, _), gpu },
                Self::Unknown { lag: Lag::Power(b, _), gpu: other },
            ) => near(a / b, 1.0) && gpu.is_alike(other),
            _ => false,
        }
    }
}
