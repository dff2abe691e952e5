//! Why a reading has no utilization.

/// Why a reading has no utilization. The time it covers is unobserved for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
