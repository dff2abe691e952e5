//! The metrics of a GPU and their polling intervals.

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Nanos;

/// One kind of query. Cost and polling interval are tracked for each.
///
/// Queries run in this order. A reading has the timestamp of the utilization query, which comes first so
/// that slow queries of others do not delay it, and is complete after the process list: later metrics are
/// not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Utilization (`nvmlDeviceGetUtilizationRates`).
    Utilization,
    /// Memory in use (`nvmlDeviceGetMemoryInfo`).
    Memory,
    /// Power draw (`nvmlDeviceGetPowerUsage`).
    Power,
    /// The energy counter (`nvmlDeviceGetTotalEnergyConsumption`).
    Energy,
    /// The temperature of the die (`nvmlDeviceGetTemperature`).
    Temperature,
    /// The SM and memory clock rates (`nvmlDeviceGetClockInfo`).
    Clocks,
    /// Generation and lanes of the PCIe link (`nvmlDeviceGetCurrPcieLinkGeneration`,
    /// `nvmlDeviceGetCurrPcieLinkWidth`, `nvmlDeviceGetMaxPcieLinkWidth`).
    PcieLink,
    /// The number of compute processes (`nvmlDeviceGetComputeRunningProcesses`).
    Processes,
    /// XID errors (`nvmlEventSetWait`).
    Events,
    /// What each of several processes used of the GPU (`nvmlDeviceGetProcessUtilization`).
    ProcessUse,
    /// The driver's buffer of utilization samples (`nvmlDeviceGetSamples`).
    Samples,
    /// Hardware counters (`nvmlGpmMetricsGet`).
    Gpm,
    /// The driver's counters and the memory temperature (`nvmlDeviceGetFieldValues`).
    Counters,
    /// Utilization of the video encoder and decoder (`nvmlDeviceGetEncoderUtilization`,
    /// `nvmlDeviceGetDecoderUtilization`).
    Video,
    /// The power limit (`nvmlDeviceGetEnforcedPowerLimit`).
    PowerLimit,
    /// Fan speeds (`nvmlDeviceGetFanSpeed_v2`).
    Fans,
    /// Traffic and errors of NVLink links (`nvmlDeviceGetFieldValues`).
    NvLinks,
    /// Memory and activity of MIG instances (`nvmlDeviceGetMigDeviceHandleByIndex`), and MIG mode
    /// (`nvmlDeviceGetMigMode`).
    Mig,
}

impl Metric {
    /// Every metric, in query order.
    pub const ALL: [Self; 18] = [
        Self::Utilization,
        Self::Memory,
        Self::Power,
        Self::Energy,
        Self::Temperature,
        Self::Clocks,
        Self::PcieLink,
        Self::Processes,
        Self::Events,
        Self::ProcessUse,
        Self::Samples,
        Self::Gpm,
        Self::Counters,
        Self::Video,
        Self::PowerLimit,
        Self::Fans,
        Self::NvLinks,
        Self::Mig,
    ];

    /// Its name in logs and internal telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Power => "power",
            Self::Energy => "energy",
            Self::Temperature => "temperature",
            Self::Clocks => "clocks",
            Self::PcieLink => "pcie_link",
            Self::Utilization => "utilization",
            Self::Processes => "processes",
            Self::Events => "events",
            Self::ProcessUse => "process_use",
            Self::Samples => "samples",
            Self::Gpm => "gpm",
            Self::Counters => "counters",
            Self::Video => "video",
            Self::PowerLimit => "power_limit",
            Self::Fans => "fans",
            Self::NvLinks => "nvlinks",
            Self::Mig => "mig",
        }
    }

    /// The polling interval while the call is cheap; zero: every tick. The sample buffer determines
    /// its own drain interval.
    ///
    /// Temperature, clocks and the energy counter change slowly or only increase; a process list
    /// takes milliseconds and holds the driver's lock; GPM requires more than 100 ms between
    /// samples. A PCIe link changes with load at most. What is only exported is polled a few times per export, and a limit that an
    /// administrator sets once per export.
    #[must_use]
    pub const fn period(self) -> Nanos {
        match self {
            Self::Utilization | Self::Memory | Self::Power => Nanos::ZERO,
            Self::Gpm => Nanos::from_millis(200),
            Self::Energy
            | Self::Temperature
            | Self::Clocks
            | Self::Processes
            | Self::Events
            | Self::ProcessUse
            | Self::Samples
            | Self::Counters
            | Self::Video => Nanos::SECOND,
            Self::PcieLink | Self::Fans | Self::NvLinks | Self::Mig => Nanos::from_secs(10),
            Self::PowerLimit => Nanos::from_secs(60),
        }
    }

    /// The quantities of [`Self::PcieLink`].
    pub(super) const PCIE_LINK: [Quantity; 3] =
        [Quantity::PcieGeneration, Quantity::PcieWidth, Quantity::PcieMaxWidth];

    /// Clears its values in a reading.
    pub fn clear(self, values: &mut Reading) {
        match self {
            Self::Memory => values.memory_used = None,
            Self::Power => values.power = None,
            Self::Energy => values.energy = None,
            Self::Temperature => values.temperature = None,
            Self::Clocks => (values.sm_clock, values.memory_clock) = (None, None),
            Self::PcieLink => {
                for quantity in Self::PCIE_LINK {
                    values.device.set(quantity, None);
                }
            }
            Self::Utilization => {
                values.utilization = Err(MissingReason::NotCollected);
                values.device.set(Quantity::MemoryUtilization, None);
            }
            Self::Processes => values.compute_processes = None,
            Self::Events
            | Self::ProcessUse
            | Self::Samples
            | Self::Gpm
            | Self::Counters
            | Self::Video
            | Self::PowerLimit
            | Self::Fans
            | Self::NvLinks
            | Self::Mig => {}
        }
    }
}
