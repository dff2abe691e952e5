//! A reading: what one GPU said of itself at one instant.
//!
//! The first noun on the line. Sources make readings; nothing after this room knows whether they
//! came from a log, a driver or a demonstration.

use crate::units::{Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Timestamp, Utilization};

/// What one GPU said of itself at one instant. What it did not say is `None`, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it was read.
    pub at: Timestamp,
    /// How busy the GPU was, or why that is not known
    /// (`nvmlDeviceGetUtilizationRates().gpu`, `nvidia-smi` `utilization.gpu`).
    pub utilization: Result<Utilization, Absent>,
    /// Memory in use (`nvmlDeviceGetMemoryInfo`, `memory.used`).
    pub memory_used: Option<Bytes>,
    /// Processes that compute on it (`nvmlDeviceGetComputeRunningProcesses`).
    pub compute_processes: Option<u32>,
    /// Power drawn (`nvmlDeviceGetPowerUsage`, `power.draw`).
    pub power: Option<Milliwatts>,
    /// Energy since the driver was loaded (`nvmlDeviceGetTotalEnergyConsumption`).
    pub energy: Option<Millijoules>,
    /// Temperature of the die (`nvmlDeviceGetTemperature`, `temperature.gpu`).
    pub temperature: Option<Celsius>,
    /// Clock of the streaming multiprocessors (`nvmlDeviceGetClockInfo(SM)`, `clocks.sm`).
    pub sm_clock: Option<Megahertz>,
    /// Clock of the memory (`nvmlDeviceGetClockInfo(MEM)`, `clocks.mem`).
    pub memory_clock: Option<Megahertz>,
}

impl Reading {
    /// A reading that says nothing but its time, to be filled in.
    #[must_use]
    pub const fn at(at: Timestamp) -> Self {
        Self {
            at,
            utilization: Err(Absent::NotAsked),
            memory_used: None,
            compute_processes: None,
            power: None,
            energy: None,
            temperature: None,
            sm_clock: None,
            memory_clock: None,
        }
    }

    /// Whether something holds the GPU: a compute process, or more than 1 % of its memory.
    /// `None` where the reading does not tell.
    #[must_use]
    pub fn holds(&self, memory_total: Option<Bytes>) -> Option<bool> {
        let processes = self.compute_processes.map(|processes| processes > 0);
        let memory = self.memory_used.zip(memory_total);
        let memory = memory.map(|(used, total)| used.get() * 100 > total.get());
        match (processes, memory) {
            (None, None) => None,
            (processes, memory) => Some(processes == Some(true) || memory == Some(true)),
        }
    }
}

/// Why a reading has no utilization. Time under it is unobserved, for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Absent {
    /// The source has no such column or did not ask.
    NotAsked,
    /// The driver does not support it here (`[N/A]`, `[Not Supported]`, NVML `NOT_SUPPORTED`).
    NotSupported,
    /// The GPU fell off the bus (`[GPU is lost]`, NVML `GPU_IS_LOST`).
    Lost,
    /// There was a value, but no one could read it, or it was out of range.
    Unreadable,
}

impl Absent {
    /// All reasons, in the order reports list them.
    pub const ALL: [Self; 4] = [Self::NotAsked, Self::NotSupported, Self::Lost, Self::Unreadable];

    /// The reason in words, for reports.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotAsked => "no utilization column",
            Self::NotSupported => "utilization not supported",
            Self::Lost => "GPU lost",
            Self::Unreadable => "unreadable value",
        }
    }
}

/// What a utilization is a measure of. Several stand side by side; one is chosen for the bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// The driver's own utilization, polled: some kernel was running
    /// (`nvmlDeviceGetUtilizationRates().gpu`).
    NvmlGpu,
    /// The same from the driver's ring of samples, of which none is missed
    /// (`nvmlDeviceGetSamples`).
    NvmlSamples,
    /// Multiprocessors that had work, measured by the hardware (GPM, Hopper and newer).
    GpmSm,
    /// Tensor cores at work, measured by the hardware (GPM, Hopper and newer).
    GpmTensor,
}

impl Basis {
    /// Its name in reports and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NvmlGpu => "nvml.gpu",
            Self::NvmlSamples => "nvml.samples",
            Self::GpmSm => "gpm.sm",
            Self::GpmTensor => "gpm.tensor",
        }
    }
}

/// The mean utilization of a stretch of time, where a source measures stretches: a driver's sample,
/// a pair of hardware counters. (A [`Reading`] tells an instant.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// What was measured.
    pub basis: Basis,
    /// Where the stretch begins.
    pub from: Timestamp,
    /// Where it ends, after `from`.
    pub to: Timestamp,
    /// The mean of it.
    pub utilization: Utilization,
}

/// What is known of a GPU beside its readings. Filled in by the source as it learns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuIdentity {
    /// The name reports use: the uuid, else the bus id, else the index, with the file before it
    /// where two files would otherwise share a name.
    pub name: String,
    /// `nvmlDeviceGetUUID`.
    pub uuid: Option<String>,
    /// `nvmlDeviceGetPciInfo().busId`.
    pub bus_id: Option<String>,
    /// `nvmlDeviceGetIndex`.
    pub index: Option<u32>,
    /// `nvmlDeviceGetName`, as the driver spells it.
    pub model: Option<String>,
    /// `nvmlDeviceGetMemoryInfo().total`, where the source gave it.
    pub memory_total: Option<Bytes>,
    /// The most it may draw, never zero: `nvmlDeviceGetEnforcedPowerLimit`, or else
    /// `nvmlDeviceGetPowerManagementLimit`; `enforced.power.limit`, or else `power.limit`. An
    /// administrator may set another one at any time. A log tells it row by row; a driver is asked
    /// once, when the GPU is found.
    pub power_limit: Option<Milliwatts>,
    /// What only a driver tells.
    pub board: Board,
}

/// What a driver tells of a GPU once, when it is found. A log tells none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// The number on the board (`nvmlDeviceGetSerial`).
    pub serial_number: Option<String>,
    /// The version of its VBIOS (`nvmlDeviceGetVbiosVersion`).
    pub firmware_version: Option<String>,
    /// The version of the driver (`nvmlSystemGetDriverVersion`).
    pub driver_version: Option<String>,
    /// Where the hardware slows itself down
    /// (`nvmlDeviceGetTemperatureThreshold(SLOWDOWN)`; newer GPUs may not tell).
    pub slowdown: Option<Celsius>,
    /// Where it turns itself off, to protect itself
    /// (`nvmlDeviceGetTemperatureThreshold(SHUTDOWN)`; newer GPUs may not tell).
    pub shutdown: Option<Celsius>,
}
