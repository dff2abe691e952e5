//! Readings: one GPU's values at one instant.
//!
//! Sources produce readings.

pub use super::missing_reason::MissingReason;
pub use crate::basis::Basis;
use crate::device_state::DeviceState;
use crate::energy_source::{EnergyCounter, PowerBasis};
pub use crate::gpu_identity::{
    Board, GpuIdentity, HOLDERS, HOST, INSTANCE, LOG_FILE, MIG_MODE, MIG_PROFILES,
    NEVER_TOUCHED_BY, NVLINK_PEERS,
};
use crate::units::{Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Timestamp, Utilization};

/// One GPU's values at one instant. A missing value is `None`, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reading {
    /// Time of the reading.
    pub at: Timestamp,
    /// Utilization, or why it is missing (`nvmlDeviceGetUtilizationRates().gpu`, `nvidia-smi`
    /// `utilization.gpu`).
    pub utilization: Result<Utilization, MissingReason>,
    /// Memory in use (`nvmlDeviceGetMemoryInfo`, `memory.used`).
    pub memory_used: Option<Bytes>,
    /// Number of compute processes (`nvmlDeviceGetComputeRunningProcesses`).
    pub compute_processes: Option<u32>,
    /// Power draw.
    pub power: Option<Milliwatts>,
    /// The source of `power`.
    pub power_basis: PowerBasis,
    /// Energy counter since the driver was loaded (`nvmlDeviceGetTotalEnergyConsumption`).
    pub energy: Option<Millijoules>,
    /// The source of `energy`.
    pub energy_counter: EnergyCounter,
    /// Die temperature (`nvmlDeviceGetTemperature`, `temperature.gpu`).
    pub temperature: Option<Celsius>,
    /// SM clock (`nvmlDeviceGetClockInfo(SM)`, `clocks.sm`).
    pub sm_clock: Option<Megahertz>,
    /// Memory clock (`nvmlDeviceGetClockInfo(MEM)`, `clocks.mem`).
    pub memory_clock: Option<Megahertz>,
    /// Values that only some sources have.
    pub device: DeviceState,
    /// Whether the host is another instance now than at the readings before: what none of them covers of the time
    /// since then was spent without the GPU.
    pub begins_instance: bool,
}

impl Reading {
    /// A reading with every value missing, to be filled in.
    #[must_use]
    pub const fn at(at: Timestamp) -> Self {
        Self {
            at,
            utilization: Err(MissingReason::NotCollected),
            memory_used: None,
            compute_processes: None,
            power: None,
            power_basis: PowerBasis::Draw,
            energy: None,
            energy_counter: EnergyCounter::Log,
            temperature: None,
            sm_clock: None,
            memory_clock: None,
            device: DeviceState::NONE,
            begins_instance: false,
        }
    }

    /// Whether the GPU is held by a compute process or by more than 1% of its memory in use. `None` if the reading
    /// has neither value.
    #[inline]
    #[must_use]
    pub fn is_held(&self, memory_total: Option<Bytes>) -> Option<bool> {
        let processes = self.compute_processes.map(|processes| processes > 0);
        let memory = self.memory_used.zip(memory_total);
        let memory = memory.map(|(used, total)| used.get() * 100 > total.get());
        match (processes, memory) {
            (None, None) => None,
            (processes, memory) => Some(processes == Some(true) || memory == Some(true)),
        }
    }

    /// Whether work uses the GPU: at `idle` utilization or more, with a compute process, or with more than 1%
    /// of its memory in use, which only a process can have.
    #[inline]
    #[must_use]
    pub fn is_touched(&self, memory_total: Option<Bytes>, idle: Utilization) -> bool {
        self.utilization.is_ok_and(|utilization| utilization >= idle)
            || self.is_held(memory_total) == Some(true)
    }
}

/// Mean utilization over a half-open time range, for sources that measure ranges: driver samples
/// and hardware counter pairs. (A [`Reading`] is a value at one instant.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interval {
    /// The source of the value.
    pub basis: Basis,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range (exclusive), after `from`.
    pub to: Timestamp,
    /// Mean over the range.
    pub utilization: Utilization,
}
