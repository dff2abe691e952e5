//! The GPUs of a node as the driver lists them: what device IDs and numbers are resolved with.

use phasemeter_meter::holder::Share;

/// A GPU of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGpu {
    /// Its UUID: `GPU-…`.
    pub uuid: String,
    /// Its index in NVML, which is also DCGM's.
    pub index: u32,
    /// Its memory in bytes, if known.
    pub memory: Option<u64>,
    /// Its minor number: of `/dev/nvidiaN`, if known.
    pub minor: Option<u32>,
    /// The IDs of the compute processes on it, in the PID namespace of the host; those of its MIG instances may be
    /// among them.
    pub processes: Vec<u32>,
    /// Its MIG instances.
    pub instances: Vec<NodeInstance>,
}

/// A MIG instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInstance {
    /// Its UUID: `MIG-…`.
    pub uuid: String,
    /// The ID of its GPU instance, if known.
    pub gpu_instance: Option<u32>,
    /// Its profile, like `1g.10gb`, if known.
    pub profile: Option<String>,
    /// The memory slice at which it starts, if known.
    pub start: Option<u32>,
    /// Its part of the GPU, if known.
    pub share: Option<Share>,
    /// The IDs of the compute processes on it, in the PID namespace of the host.
    pub processes: Vec<u32>,
}
