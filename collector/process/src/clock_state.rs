//! Whether the wall clock is synchronized, as the kernel knows it.

use std::mem::MaybeUninit;
use std::time::Duration;

/// The state of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockState {
    /// Something disciplines it; the time is wrong by at most this, by its own estimate.
    Synchronized(Duration),
    /// Nothing does.
    Unsynchronized,
    /// The kernel does not tell.
    Unknown,
}

impl ClockState {
    /// Asks the kernel, and changes nothing.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn read() -> Self {
        // SAFETY: all of it are integers, for which zero is a value; `modes` is then 0, which changes nothing.
        let mut state: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the pointer is valid during the call, which writes to it only.
        let result = unsafe { libc::adjtimex(&raw mut state) };
        match result {
            -1 => Self::Unknown,
            libc::TIME_ERROR => Self::Unsynchronized,
            _ => Self::Synchronized(Duration::from_micros(
                u64::try_from(state.maxerror).unwrap_or(0),
            )),
        }
    }

    /// Other systems do not tell.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub const fn read() -> Self {
        Self::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unsynchronized clock has an error that grows to 16 s, and is not called synchronized.
    #[test]
    fn synchronized_clock_is_close() {
        if let ClockState::Synchronized(error) = ClockState::read() {
            assert!(error < Duration::from_secs(16), "{error:?}");
        }
    }
}
