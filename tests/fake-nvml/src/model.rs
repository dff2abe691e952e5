//! A validated script: devices, faults and the machine. Everything the library returns is a function
//! of this model and the time since the script's start.

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::device::Device;
use crate::fault::{Fault, Xid};

/// The clock that a script runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The machine's clock.
    #[default]
    Real,
    /// Advanced by the test only.
    Virtual,
    /// Advanced by the test, and by calls that take longer or hang, which return at once.
    Simulated,
}

/// A validated script.
#[derive(Clone, Debug)]
pub struct Model {
    /// Driver and library versions.
    pub system: System,
    /// The clock it runs on.
    pub clock: Clock,
    /// Start of the script; `None`: the first initialization of NVML.
    pub start: Option<Timestamp>,
    /// If set, timestamps count from this long before the script's start instead of from 1970.
    pub uptime: Option<Nanos>,
    /// Length of the script.
    pub length: Nanos,
    /// GPUs. The index of one counts those before it that are listed at the time.
    pub devices: Vec<Device>,
    /// Faults.
    pub faults: Vec<Fault>,
    /// XID events, earliest first.
    pub xids: Vec<Xid>,
}

impl Model {
    /// The GPUs that the driver lists at `t`, by index, each with its place in [`Self::devices`].
    pub fn listed(&self, t: Nanos) -> impl Iterator<Item = (usize, &Device)> {
        self.devices.iter().enumerate().filter(move |(_, device)| device.listed.contains(&t))
    }
}

/// Versions that a machine reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// `nvmlSystemGetDriverVersion`.
    pub driver_version: String,
    /// `nvmlSystemGetNVMLVersion`.
    pub nvml_version: String,
    /// `nvmlSystemGetCudaDriverVersion`: 1000 × major + 10 × minor.
    pub cuda_version: i32,
}

impl System {
    /// Whether fields 251 to 273 are numbered as in NVML 13 Update 1 (driver 580.82 or later).
    #[must_use]
    pub fn renumbers_fields(&self) -> bool {
        let mut parts = self.driver_version.split('.').map(|part| part.parse().unwrap_or(0_u32));
        (parts.next(), parts.next()) >= (Some(580), Some(82))
    }
}
