//! Local time, as the C library has it from `TZ`, else from `/etc/localtime`.

use std::mem::MaybeUninit;

/// Local time in seconds east of UTC at this time, in seconds since 1970. `None` if it cannot be computed.
#[must_use]
pub fn utc_offset(unix_seconds: i64) -> Option<i32> {
    let time: libc::time_t = unix_seconds;
    let mut local = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid during the call, which writes all of `local` if it returns a pointer.
    // It reads the environment, which this program never changes.
    let local = unsafe {
        if libc::localtime_r(&raw const time, local.as_mut_ptr()).is_null() {
            return None;
        }
        local.assume_init()
    };
    i32::try_from(local.tm_gmtoff).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_at_most_a_day_and_none_beyond_the_calendar() {
        let offset = utc_offset(1_785_110_400).unwrap();
        assert!(offset.abs() < 86_400, "{offset}");
        assert_eq!(utc_offset(i64::MAX), None);
    }
}
