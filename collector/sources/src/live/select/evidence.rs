//! What tells which GPUs to meter: variables, and what else is known in a pod.

use std::fmt;

use super::names::{GpuName, Visible};

/// The variable with the GPUs of a container.
pub const NVIDIA: &str = "NVIDIA_VISIBLE_DEVICES";

/// The variable with the GPUs that CUDA uses of those in a container.
pub(super) const CUDA: &str = "CUDA_VISIBLE_DEVICES";

/// The variable with the order in which CUDA counts GPUs.
pub(super) const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";

/// What decided which GPUs are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedBy {
    /// `--gpu`.
    Option,
    /// This environment variable; the narrower one of two.
    Variable(&'static str),
    /// Files with the devices of a claim.
    Metadata,
    /// The node's agent.
    Agent,
    /// The other containers of the pod, by their variables, claims or devices.
    Containers,
    /// Processes of the pod on the GPUs.
    Processes,
    /// The devices of this container.
    Devices,
    /// Nothing: all GPUs of the driver.
    Driver,
}

impl SelectedBy {
    /// The subject of an error.
    pub(super) const fn subject(self) -> &'static str {
        match self {
            Self::Option => "--gpu",
            Self::Variable(variable) => variable,
            Self::Metadata => "device metadata",
            Self::Agent => "node agent",
            Self::Containers => "other containers",
            Self::Processes => "processes",
            Self::Devices => "devices",
            Self::Driver => "driver",
        }
    }
}

/// For people, after the number of GPUs.
impl fmt::Display for SelectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Option => "selected by --gpu",
            Self::Variable(variable) => return write!(f, "selected by {variable}"),
            Self::Metadata => "those of this pod, by the device metadata of its claims",
            Self::Agent => "those of this pod, by the node agent",
            Self::Containers => "those of this pod, by its other containers",
            Self::Processes => "those of this pod, by its processes on them",
            Self::Devices => "those whose devices this container has",
            Self::Driver => "all that the driver shows",
        })
    }
}

/// The variables of this process that name GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// `NVIDIA_VISIBLE_DEVICES`, if it is set.
    pub nvidia: Option<Visible>,
    /// `CUDA_VISIBLE_DEVICES`, if it is set.
    pub(super) cuda: Option<String>,
    /// Whether CUDA orders GPUs by bus.
    pub(super) is_by_bus: bool,
}

impl Variables {
    /// Reads them. `variable` looks up the environment, `mounted` the files below [`MOUNTED_DEVICES`].
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        mounted: impl FnOnce() -> Vec<String>,
    ) -> Self {
        Self {
            nvidia: variable(NVIDIA).and_then(|value| Visible::parse(&value, mounted)),
            cuda: variable(CUDA),
            is_by_bus: variable(CUDA_ORDER).is_some_and(|order| order == "PCI_BUS_ID"),
        }
    }
}

/// What tells which GPUs are those of this process, beside its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Whether this process is in a pod: GPUs that the driver lists may be those of other pods.
    pub in_pod: bool,
    /// Whether the driver lists those of the pod only, since it is the node's agent.
    pub is_own_only: bool,
    /// GPUs that something names as those of the pod, and what.
    pub named: Option<(SelectedBy, Vec<GpuName>)>,
    /// The positions, in the list of GPUs, of those on which processes of the pod compute.
    pub used: Vec<usize>,
    /// The GPUs whose devices the container has, if it was given them as its own.
    pub devices: Option<Devices>,
}

/// GPUs whose devices a container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// All that the driver shows in it.
    Shown,
    /// These, by their UUIDs.
    Named(Vec<GpuName>),
}
