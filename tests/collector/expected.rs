//! What time is billed to which account, by the definitions: from the readings of a GPU, all in memory.
//!
//! Must not compute it with the product's own code.

use std::collections::BTreeMap;

const NANOS: u64 = 1_000_000_000;

/// What is known of a GPU beside its readings. Times are in nanoseconds since 1970.
pub(crate) struct Billed {
    /// How long a reading represents the present.
    pub(crate) stale_after: u64,
    /// Until when it is billed.
    pub(crate) end: u64,
    /// The account of its idle time.
    pub(crate) idle: &'static str,
}

/// Nanoseconds of each account: the phase of a second is that of its mean. A reading has percent, or none if its
/// value is missing.
pub(crate) fn accounts(
    readings: &BTreeMap<u64, Option<u64>>,
    billed: &Billed,
) -> BTreeMap<&'static str, u64> {
    // By second: observed time, and percent × time.
    let mut seconds: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut unobserved = billed.end - readings.keys().next().unwrap();
    let ends = readings.keys().skip(1).chain([&billed.end]);
    for ((&from, &percent), &to) in readings.iter().zip(ends) {
        let Some(percent) = percent else { continue };
        let (mut at, to) = (from, to.min(from.saturating_add(billed.stale_after)));
        unobserved -= to - from;
        while at < to {
            let end = to.min((at / NANOS + 1) * NANOS);
            let (time, weighted) = seconds.entry(at / NANOS).or_default();
            *time += end - at;
            *weighted += (end - at) * percent;
            at = end;
        }
    }
    let mut accounts = BTreeMap::new();
    for (time, weighted) in seconds.into_values() {
        let account = match weighted {
            it if it < 10 * time => billed.idle,
            it if it < 70 * time => "underutilized",
            it if it < 90 * time => "productive",
            _ => "compute_bound",
        };
        *accounts.entry(account).or_default() += time;
    }
    if unobserved > 0 {
        accounts.insert("unobserved", unobserved);
    }
    accounts
}
