//! How energy was measured.

use crate::energy_source::{EnergyCounter, PowerBasis};

/// What energy is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBasis {
    /// Differences of an energy counter.
    Counter(EnergyCounter),
    /// Power × the time covered by power readings.
    Power(PowerBasis),
}

impl EnergyBasis {
    /// All bases, in report order.
    pub const ALL: [Self; 12] = [
        Self::Counter(EnergyCounter::Nvml),
        Self::Counter(EnergyCounter::Log),
        Self::Counter(EnergyCounter::Dcgm),
        Self::Counter(EnergyCounter::Hw),
        Self::Counter(EnergyCounter::Metric),
        Self::Power(PowerBasis::Draw),
        Self::Power(PowerBasis::Average),
        Self::Power(PowerBasis::Instant),
        Self::Power(PowerBasis::NvmlUsage),
        Self::Power(PowerBasis::Dcgm),
        Self::Power(PowerBasis::Hw),
        Self::Power(PowerBasis::Metric),
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter(counter) => counter.name(),
            Self::Power(power) => power.name(),
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Counter(counter) => counter as usize,
            Self::Power(power) => EnergyCounter::Metric as usize + 1 + power as usize,
        }
    }
}
