//! The NVML return codes that this library uses.

use std::ffi::CStr;

/// A return code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// `nvmlInit` was not called.
    Uninitialized,
    /// A null pointer, an unknown handle, a number out of range.
    InvalidArgument,
    /// Not supported by this device.
    NotSupported,
    /// Missing permission.
    NoPermission,
    /// No such object.
    NotFound,
    /// The buffer is too small; the count parameter, if any, holds the required size.
    InsufficientSize,
    /// No driver is loaded.
    DriverNotLoaded,
    /// Timed out.
    Timeout,
    /// The driver lacks the function.
    FunctionNotFound,
    /// The GPU has fallen off the bus.
    GpuIsLost,
    /// The GPU requires a reset.
    ResetRequired,
    /// No data.
    NoData,
    /// Structure version mismatch.
    VersionMismatch,
    /// Unknown error.
    Unknown,
}

impl ErrorCode {
    /// Every code.
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

    /// The text of `nvmlErrorString` for a return code.
    #[must_use]
    pub fn text(code: u32) -> &'static CStr {
        if code == 0 {
            return c"Success";
        }
        match Self::ALL.into_iter().find(|error| error.code() == code) {
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
