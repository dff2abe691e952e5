//! The date of today, for the age of prices.

use std::time::SystemTime;

use phasemeter_meter::date::Date;
use phasemeter_meter::units::{Nanos, Timestamp};

/// In UTC.
pub(super) fn today() -> Date {
    Date::of(now())
}

/// The present.
pub(super) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp::EPOCH + Nanos::from(since_epoch.unwrap_or_default())
}
