//! A script, understood: devices, faults and the machine around them. Everything the library
//! answers is a function of this and of the time since the script's start.

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::device::Device;
use crate::fault::{Fault, Xid};

/// Whose time it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// The machine's.
    #[default]
    Real,
    /// The test's: it stands still but when the test moves it.
    Virtual,
}

/// A script, understood.
#[derive(Clone, Debug)]
pub struct Model {
    /// What the machine says of itself.
    pub system: System,
    /// Whose time it is.
    pub time: Time,
    /// When the script starts; `None`: when NVML is first initialized.
    pub start: Option<Timestamp>,
    /// Timestamps count from this long before the script's start, not from 1970.
    pub uptime: Option<Nanos>,
    /// How long the script is.
    pub length: Nanos,
    /// Its GPUs, in the order of their indices.
    pub devices: Vec<Device>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What the driver reports, earliest first.
    pub xids: Vec<Xid>,
}

/// What a machine says of itself.
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
    /// Whether fields 251 to 273 have the numbers of NVML 13 Update 1: from driver 580.82 on.
    #[must_use]
    pub fn renumbers_fields(&self) -> bool {
        let mut parts = self.driver_version.split('.').map(|part| part.parse().unwrap_or(0_u32));
        (parts.next(), parts.next()) >= (Some(580), Some(82))
    }
}
