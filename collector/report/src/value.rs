//! JSON values: money as decimal strings, time as seconds, instants as RFC 3339.

use std::fmt;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

/// Dollars: a string with all nine decimals, so that accounts add up exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub NanoUsd);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A duration: seconds as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub Nanos);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

/// An instant: RFC 3339 in UTC, with as many fractional digits as needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub Timestamp);

impl Utc {
    /// Its date and time of day, to the second.
    pub(super) fn civil(self) -> OffsetDateTime {
        let seconds = i64::try_from(self.0.whole_second()).unwrap_or_default();
        OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Instant(self.0).fmt(f)
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_serializes_as_string_and_time_as_number() {
        let json = serde_json::to_string(&(Usd(NanoUsd(-5)), Seconds(Nanos(1_500_000_000))));
        assert_eq!(json.unwrap(), r#"["-0.000000005",1.5]"#);
    }
}
