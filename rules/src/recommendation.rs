//! What a recommender answers, after it was checked.
//!
//! This room must not know who said it, nor whether it is counted.

use std::collections::BTreeMap;

use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::recommendation;
pub use phasemeter_meter::savings::recommendation::{Saving, Target};

use crate::lever::Lever;

/// One piece of advice. Every bound named here has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Names the advice for machines: 1–64 of `a`–`z`, `0`–`9`, `.`, `_`, `-`.
    pub code: String,
    /// What it acts on.
    pub target: Target,
    /// By what means.
    pub lever: Lever,
    /// In a few words: one line of at most 120 bytes.
    pub title: String,
    /// What to do: at most 1,000 bytes.
    pub action: String,
    /// Why that helps here: at most 2,000 bytes.
    pub rationale: String,
    /// What it saves, of the bill of `gpus`.
    pub saving: Saving,
    /// How sure the policy is: 0–1.
    pub confidence: Fraction,
    /// The numbers it rests on: at most 32, all finite.
    pub evidence: BTreeMap<String, f64>,
    /// The GPUs it is for: at least one, each in the window, each once.
    pub gpus: Vec<String>,
}

impl Recommendation {
    /// As far as savings go. `policy`: who said it.
    #[must_use]
    pub fn advice<'a>(&'a self, policy: &'a str) -> recommendation::Recommendation<'a> {
        let Self { ref code, target, saving, ref gpus, .. } = *self;
        recommendation::Recommendation { policy, code, target, saving, gpus }
    }
}
