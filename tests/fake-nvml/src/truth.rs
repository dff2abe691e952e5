//! The ground truth that measurements are compared with.
//!
//! Instants count from the script's start. No value passes through the driver's windows, rounding or
//! refreshes.

use phasemeter_meter::units::{Nanos, Utilization};

use crate::device::Device;
use crate::track::Rate;

/// Energy in picojoules: milliwatts × nanoseconds, without any rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Picojoules(pub u128);

impl Picojoules {
    /// Picojoules in a millijoule, the unit of the energy counter.
    pub const IN_MILLIJOULE: u128 = 1_000_000_000;
}

impl Device {
    /// Time in [a, b) spent in phases with this name.
    #[must_use]
    pub fn true_time_in(&self, phase_name: &str, a: Nanos, b: Nanos) -> Nanos {
        let phases = self.track.phases_between(a, b);
        phases.filter(|(phase, ..)| phase.name == phase_name).map(|(_, a, b)| b - a).sum()
    }

    /// The share of [a, b) with a running kernel, to the nearest ppm.
    #[must_use]
    pub fn true_utilization(&self, a: Nanos, b: Nanos) -> Utilization {
        let mean = u32::try_from(self.track.mean(Rate::Busy, a, b)).ok();
        mean.and_then(Utilization::from_ppm).unwrap_or(Utilization::FULL)
    }

    /// The energy used in [a, b).
    #[must_use]
    pub fn true_energy(&self, a: Nanos, b: Nanos) -> Picojoules {
        Picojoules(self.track.between(Rate::Power, a, b))
    }
}
