//! Readings: one GPU's values at one instant, and the identity of that GPU.
//!
//! Sources produce readings.

use std::collections::BTreeMap;

use crate::device_state::DeviceState;
use crate::energy_source::{EnergyCounter, PowerBasis};
use crate::gpu_specs::GpuSpecs;
use crate::units::{Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Timestamp, Utilization};
use crate::vendor::Vendor;

/// One GPU's values at one instant. A missing value is `None`, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Why a reading has no utilization. The time it covers is unobserved for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MissingReason {
    /// The source has no such column, or did not collect it.
    NotCollected,
    /// Not supported by the driver or GPU (`[N/A]`, `[Not Supported]`, NVML `NOT_SUPPORTED`).
    NotSupported,
    /// The GPU fell off the bus (`[GPU is lost]`, NVML `GPU_IS_LOST`).
    Lost,
    /// The value could not be parsed or was out of range.
    Unreadable,
    /// The source no longer lists the GPU; or, if it does not identify its GPUs, one that is unknown.
    Vanished,
}

impl MissingReason {
    /// All reasons, in report order.
    pub const ALL: [Self; 5] =
        [Self::NotCollected, Self::NotSupported, Self::Lost, Self::Unreadable, Self::Vanished];

    /// Text for reports.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotCollected => "no utilization column",
            Self::NotSupported => "utilization not supported",
            Self::Lost => "GPU lost",
            Self::Unreadable => "unreadable value",
            Self::Vanished => "GPU no longer listed",
        }
    }
}

/// The source of a utilization value. A GPU may have several; one is chosen for billing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// The driver's utilization, polled: the share of time in which any kernel ran
    /// (`nvmlDeviceGetUtilizationRates().gpu`).
    NvmlGpu,
    /// The same from the driver's sample buffer, which misses nothing between polls
    /// (`nvmlDeviceGetSamples`).
    NvmlSamples,
    /// SM activity from hardware counters (GPM, Hopper and newer).
    GpmSm,
    /// Tensor core activity from hardware counters (GPM, Hopper and newer).
    GpmTensor,
    /// The driver's utilization, as DCGM reports it (`DCGM_FI_DEV_GPU_UTIL`).
    DcgmGpu,
    /// Activity of the graphics or compute engine (`DCGM_FI_PROF_GR_ENGINE_ACTIVE`).
    DcgmGrEngine,
    /// SM activity from hardware counters (`DCGM_FI_PROF_SM_ACTIVE`).
    DcgmSm,
    /// The utilization that another program exports as `hw.gpu.utilization`.
    HwGpu,
}

impl Basis {
    /// The names of all that metrics of other programs can have.
    pub const NAMES: &str = "nvml.gpu, nvml.samples, dcgm.gpu, dcgm.gr_engine, dcgm.sm, hw.gpu";

    /// One of [`Self::NAMES`]; `None` if the name is not among them.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::NvmlGpu,
            Self::NvmlSamples,
            Self::DcgmGpu,
            Self::DcgmGrEngine,
            Self::DcgmSm,
            Self::HwGpu,
        ];
        all.into_iter().find(|basis| basis.name() == name)
    }

    /// Whether it is the activity of the SMs.
    #[must_use]
    pub const fn is_sm(self) -> bool {
        matches!(self, Self::GpmSm | Self::DcgmSm)
    }

    /// Whether DCGM measures it.
    #[must_use]
    pub const fn is_dcgm(self) -> bool {
        matches!(self, Self::DcgmGpu | Self::DcgmGrEngine | Self::DcgmSm)
    }

    /// The name in reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NvmlGpu => "nvml.gpu",
            Self::NvmlSamples => "nvml.samples",
            Self::GpmSm => "gpm.sm",
            Self::GpmTensor => "gpm.tensor",
            Self::DcgmGpu => "dcgm.gpu",
            Self::DcgmGrEngine => "dcgm.gr_engine",
            Self::DcgmSm => "dcgm.sm",
            Self::HwGpu => "hw.gpu",
        }
    }
}

/// Mean utilization over a half-open time range, for sources that measure ranges: driver samples
/// and hardware counter pairs. (A [`Reading`] is a value at one instant.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A GPU's identity and static properties. Sources fill it in as they learn more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuIdentity {
    /// Display name: the UUID, else the bus ID, else the index; prefixed with the host, or with the file name
    /// if two files would otherwise share a name.
    pub name: String,
    /// `nvmlDeviceGetUUID`.
    pub uuid: Option<String>,
    /// `nvmlDeviceGetPciInfo().busId`.
    pub bus_id: Option<String>,
    /// `nvmlDeviceGetIndex`.
    pub index: Option<u32>,
    /// The vendor, if the driver was read; `None`: see [`Self::vendor`].
    pub vendor: Option<Vendor>,
    /// `nvmlDeviceGetName`, as spelled by the driver.
    pub model: Option<String>,
    /// Whether the model is the user's, for lack of one in the source, which may still provide it.
    pub is_model_assumed: bool,
    /// `nvmlDeviceGetMemoryInfo().total`, if the source provides it.
    pub memory_total: Option<Bytes>,
    /// Power limit, never zero: `nvmlDeviceGetEnforcedPowerLimit`, else `nvmlDeviceGetPowerManagementLimit`;
    /// `enforced.power.limit`, else `power.limit`. A log has it per row; a driver is queried once.
    pub power_limit: Option<Milliwatts>,
    /// Properties that only a driver provides.
    pub board: Board,
    /// OpenTelemetry attributes beyond those of the run, like [`HOST`] and [`MIG_MODE`].
    pub attributes: BTreeMap<String, String>,
}

impl GpuIdentity {
    /// What identifies the GPU from run to run: its UUID, else its name.
    #[must_use]
    pub fn key(&self) -> &str {
        self.uuid.as_deref().unwrap_or(&self.name)
    }

    /// Its vendor: that of the driver, else that of the model.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        self.vendor.unwrap_or_else(|| Vendor::of_model(self.model.as_deref().unwrap_or_default()))
    }

    /// Its host; `None` if unknown.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.attributes.get(HOST).map(String::as_str)
    }

    /// Its host, or the log that it is from if there are several; `None` if unknown.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.host().or_else(|| self.attributes.get(LOG_FILE).map(String::as_str))
    }

    /// The instance of its host, as its cloud names it; `None` if unknown.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.attributes.get(INSTANCE).map(String::as_str)
    }

    /// The name of its pod; `None` if it has none, or had several.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        self.attributes.get(POD).map(String::as_str)
    }

    /// The size of its memory: as reported, else as specified for the model.
    #[must_use]
    pub fn memory_size(&self) -> Option<Bytes> {
        let by_model = || GpuSpecs::of(self.model.as_deref()?)?.memory;
        self.memory_total.or_else(by_model)
    }

    /// Takes over what is known of the GPU now: a model and memory that were unknown, and its attributes, which change
    /// with its pod.
    pub fn update(&mut self, now: &Self) {
        if self.model.is_none() {
            self.model.clone_from(&now.model);
        }
        self.memory_total = self.memory_total.or(now.memory_total);
        if self.attributes != now.attributes {
            self.attributes.clone_from(&now.attributes);
        }
    }

    /// Sets the attribute [`MIG_MODE`]. Returns whether it has changed.
    pub fn set_mig_mode(&mut self, enabled: bool) -> bool {
        let mode = if enabled { MIG_ENABLED } else { "disabled" };
        let before = self.attributes.insert(MIG_MODE.to_owned(), mode.to_owned());
        before.as_deref() != Some(mode)
    }

    /// Whether the GPU is in MIG mode, as far as its source reports it.
    #[must_use]
    pub fn is_in_mig_mode(&self) -> bool {
        self.attributes.get(MIG_MODE).is_some_and(|mode| mode == MIG_ENABLED)
    }
}

/// The attribute with the host of a GPU.
pub const HOST: &str = "host.name";

/// The attribute with the first log of a GPU, if there are several machines: the GPUs of one log are in one machine.
pub const LOG_FILE: &str = "log.file.name";

/// The attribute with the instance of a GPU's host, as its cloud or its operating system names it.
pub const INSTANCE: &str = "host.id";

/// The attribute with its pod.
const POD: &str = "k8s.pod.name";

/// The attribute with the profiles of a GPU's MIG instances, as it was discovered: `1g.10gb 3g.40gb`.
pub const MIG_PROFILES: &str = "phasemeter.gpu.mig.profiles";

/// The attribute with the MIG mode of a GPU: `enabled`, in which drivers report no utilization, or `disabled`.
pub const MIG_MODE: &str = "phasemeter.gpu.mig.mode";

/// The value of [`MIG_MODE`] of a GPU in it.
const MIG_ENABLED: &str = "enabled";

/// The attribute with the holders of a GPU: `ml/train-0, ml/train-1`.
pub const HOLDERS: &str = "phasemeter.gpu.holders";

/// The attribute with those of them that never touched it.
pub const NEVER_TOUCHED_BY: &str = "phasemeter.gpu.never_touched_by";

/// The attribute with the UUIDs of the GPUs that NVLink connects to a GPU, separated by spaces.
pub const NVLINK_PEERS: &str = "phasemeter.gpu.nvlink.peers";

/// Properties queried from the driver once, when a GPU is discovered. Logs have none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// Serial number of the board (`nvmlDeviceGetSerial`).
    pub serial_number: Option<String>,
    /// VBIOS version (`nvmlDeviceGetVbiosVersion`).
    pub firmware_version: Option<String>,
    /// Driver version (`nvmlSystemGetDriverVersion`).
    pub driver_version: Option<String>,
    /// The number of its device file, `/dev/nvidiaN` (`nvmlDeviceGetMinorNumber`).
    pub minor_number: Option<u32>,
    /// Temperature at which the hardware throttles (`nvmlDeviceGetTemperatureThreshold`), if the GPU has one.
    pub slowdown: Option<Celsius>,
    /// Temperature at which the hardware shuts down, likewise.
    pub shutdown: Option<Celsius>,
}
