//! What a measurement is compared with: what the script says really happened.
//!
//! Instants count from the script's start. Nothing here goes through the driver's windows, rounding
//! or refreshes.

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
    /// How much of [a, b) was spent in phases of that name.
    #[must_use]
    pub fn true_time_in(&self, phase_name: &str, a: Nanos, b: Nanos) -> Nanos {
        let stretches = self.track.stretches(a, b);
        stretches.filter(|(phase, ..)| phase.name == phase_name).map(|(_, a, b)| b - a).sum()
    }

    /// The share of [a, b) in which a kernel ran, to the nearest ppm.
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
