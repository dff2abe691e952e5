//! Why NVML does not answer: the return codes that this library knows.

use std::ffi::CStr;

/// A return code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// `nvmlInit` was not called.
    Uninitialized,
    /// A null pointer, an unknown handle, a number out of range.
    InvalidArgument,
    /// Not here.
    NotSupported,
    /// Not for this user.
    NoPermission,
    /// Nothing of the kind.
    NotFound,
    /// The buffer is too small; where a count was given, it now tells the right one.
    InsufficientSize,
    /// There is no driver.
    DriverNotLoaded,
    /// Nothing happened in time.
    Timeout,
    /// The driver lacks the function.
    FunctionNotFound,
    /// The GPU has fallen off the bus.
    GpuIsLost,
    /// The GPU wants a reset.
    ResetRequired,
    /// Nothing measured.
    NoData,
    /// A structure of another version.
    VersionMismatch,
    /// Anything else.
    Unknown,
}

impl Refusal {
    /// Every refusal.
    const ALL: [Self; 14] = [
        Self::Uninitialized,
        Self::InvalidArgument,
        Self::NotSupported,
        Self::NoPermission,
        Self::NotFound,
        Self::InsufficientSize,
        Self::DriverNotLoaded,
        Self::Timeout,
        Self::FunctionNotFound,
        Self::GpuIsLost,
        Self::ResetRequired,
        Self::NoData,
        Self::VersionMismatch,
        Self::Unknown,
    ];

    /// Its `nvmlReturn_t`.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Uninitialized => 1,
            Self::InvalidArgument => 2,
            Self::NotSupported => 3,
            Self::NoPermission => 4,
            Self::NotFound => 6,
            Self::InsufficientSize => 7,
            Self::DriverNotLoaded => 9,
            Self::Timeout => 10,
            Self::FunctionNotFound => 13,
            Self::GpuIsLost => 15,
            Self::ResetRequired => 16,
            Self::NoData => 21,
            Self::VersionMismatch => 25,
            Self::Unknown => 999,
        }
    }

    /// What `nvmlErrorString` says of a return code.
    #[must_use]
    pub fn text(code: u32) -> &'static CStr {
        if code == 0 {
            return c"Success";
        }
        match Self::ALL.into_iter().find(|refusal| refusal.code() == code) {
            Some(Self::Uninitialized) => c"Uninitialized",
            Some(Self::InvalidArgument) => c"Invalid Argument",
            Some(Self::NotSupported) => c"Not Supported",
            Some(Self::NoPermission) => c"Insufficient Permissions",
            Some(Self::NotFound) => c"Not Found",
            Some(Self::InsufficientSize) => c"Insufficient Size",
            Some(Self::DriverNotLoaded) => c"Driver Not Loaded",
            Some(Self::Timeout) => c"Timeout",
            Some(Self::FunctionNotFound) => c"Function Not Found",
            Some(Self::GpuIsLost) => c"GPU is lost",
            Some(Self::ResetRequired) => c"GPU requires reset",
            Some(Self::NoData) => c"No data",
            Some(Self::VersionMismatch) => c"Argument version mismatch",
            Some(Self::Unknown) | None => c"Unknown Error",
        }
    }
}
