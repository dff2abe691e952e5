//! What `nvidia-smi` shows of GPU models.

/// A GPU model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// As the driver reports it.
    pub(crate) name: &'static str,
    pub(crate) memory_mib: u64,
    /// Power limit, in watts.
    pub(crate) limit_watts: u64,
    /// Power without a process, in watts.
    pub(crate) idle_watts: u64,
    /// Maximum SM clock.
    pub(crate) clock_mhz: u64,
}

const MODELS: [Model; 10] = [
    model("NVIDIA H100 80GB HBM3", 81_559, 700, 70, 1_980),
    model("NVIDIA H100 NVL", 95_830, 400, 62, 1_785),
    model("NVIDIA A100-SXM4-80GB", 81_920, 400, 60, 1_410),
    model("NVIDIA A100 80GB PCIe", 81_920, 300, 50, 1_410),
    model("NVIDIA A100-SXM4-40GB", 40_960, 400, 55, 1_410),
    model("NVIDIA A10G", 23_028, 300, 25, 1_710),
    model("NVIDIA L40S", 46_068, 350, 35, 2_520),
    model("NVIDIA L4", 23_034, 72, 16, 2_040),
    model("Tesla T4", 15_360, 70, 10, 1_590),
    model("Tesla V100-SXM2-16GB", 16_384, 300, 40, 1_530),
];

const fn model(
    name: &'static str,
    memory_mib: u64,
    limit_watts: u64,
    idle_watts: u64,
    clock_mhz: u64,
) -> Model {
    Model { name, memory_mib, limit_watts, idle_watts, clock_mhz }
}

impl Model {
    /// The model of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        MODELS.into_iter().find(|model| model.name == name)
    }
}
