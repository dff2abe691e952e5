//! The sources of utilization.

/// The source of a utilization value. A GPU may have several; one is chosen for billing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
