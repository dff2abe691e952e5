//! The identity of a GPU, and what is known of it for good.

use std::collections::BTreeMap;

use crate::gpu_specs::GpuSpecs;
use crate::units::{Bytes, Celsius, Milliwatts};
use crate::vendor::Vendor;

/// A GPU's identity and static properties. Sources fill it in as they learn more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

    /// Its host, or its own name if that is unknown.
    #[must_use]
    pub fn node_or_itself(&self) -> &str {
        self.node().unwrap_or(&self.name)
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
