//! Converts the driver's ring buffer of utilization samples to intervals, in order and in system
//! time.
//!
//! Must not depend on driver calls: the caller passes the whole buffer each time, so that its depth
//! is known and nothing depends on state in the driver.

use phasemeter_meter::reading::{Basis, Interval};
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

/// Maximum time between drains: no sample is older than this plus one period when it is emitted,
/// well within the allowed lateness.
const MAX_DRAIN_INTERVAL: Nanos = Nanos::from_secs(10);

/// Minimum time between drains, even for a small buffer.
const MIN_DRAIN_INTERVAL: Nanos = Nanos::SECOND;

/// Time between drains while the depth is unknown: half the depth of typical drivers is 8 s.
const DEFAULT_DRAIN_INTERVAL: Nanos = Nanos::from_secs(5);

/// If the newest sample differs more than this from the current time, its timestamp is not in UTC.
/// An idle GPU may have had no sample for as long.
const MAX_UTC_SKEW: i128 = 60_000_000_000;

const NANOS_PER_MICROSECOND: i128 = 1_000;

/// One sample as the driver returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sample {
    /// Microseconds since 1970 or another epoch; 0 marks an unused slot.
    pub(super) stamp: u64,
    /// Percent; larger values are invalid.
    pub(super) value: u64,
}

/// State between drains.
#[derive(Debug)]
pub(super) struct SampleRing {
    stale_after: Nanos,
    /// The driver's timestamp of the last emitted sample, and its end in system time.
    last: Option<(u64, Timestamp)>,
    /// System time minus the driver's time in nanoseconds, if they differ.
    offset: Option<i128>,
    drain_interval: Nanos,
}

impl SampleRing {
    /// A sample covers at most `stale_after`.
    pub(super) const fn new(stale_after: Nanos) -> Self {
        Self { stale_after, last: None, offset: None, drain_interval: DEFAULT_DRAIN_INTERVAL }
    }

    /// The drain interval: half the depth of the buffer.
    pub(super) const fn drain_interval(&self) -> Nanos {
        self.drain_interval
    }

    /// Discards the offset from the driver's clock after a step of the system clock.
    pub(super) const fn reset_clock(&mut self) {
        self.offset = None;
    }

    /// Processes the whole buffer as of `now`, in any order, and emits new samples, oldest first.
    /// The content of the first drain is not new: it predates the run.
    pub(super) fn drain(
        &mut self,
        samples: &mut Vec<Sample>,
        now: Timestamp,
        mut emit: impl FnMut(Interval),
    ) {
        samples.retain(|sample| sample.stamp > 0 && sample.value <= 100);
        samples.sort_unstable();
        samples.dedup_by_key(|sample| sample.stamp);
        let Some(newest) = samples.last() else {
            // The GPU was idle. All later samples are new.
            self.last.get_or_insert((0, now));
            return;
        };
        let newest = newest.stamp;
        let offset = self.anchor(newest, now);
        let period = period(samples).unwrap_or(self.stale_after);
        let depth = period.saturating_mul(u64::try_from(samples.len()).unwrap_or(u64::MAX));
        self.drain_interval = Nanos(depth.0 / 2).clamp(MIN_DRAIN_INTERVAL, MAX_DRAIN_INTERVAL);

        // A timestamp after the newest sample means that the driver's clock was set back.
        let known = self.last.filter(|(stamp, _)| *stamp <= newest);
        let Some((mut before, mut end)) = known else {
            self.last = to_system_time(newest, offset).map(|end| (newest, end));
            return;
        };
        let first_new = samples.partition_point(|sample| sample.stamp <= before);
        for sample in samples.iter().skip(first_new) {
            let gap = micros(sample.stamp - before);
            // If samples are missing, this one covers only its own period.
            let covered = if gap <= self.stale_after { gap } else { period.min(self.stale_after) };
            before = sample.stamp;
            let Some(to) = to_system_time(sample.stamp, offset) else { continue };
            let from = to.saturating_sub(covered).max(end);
            let utilization = u32::try_from(sample.value).ok().and_then(Utilization::from_percent);
            if let Some(utilization) = utilization.filter(|_| from < to) {
                emit(Interval { basis: Basis::NvmlSamples, from, to, utilization });
                end = to;
            }
        }
        self.last = Some((before, end));
    }

    /// System time minus the driver's time. If the driver does not use UTC, the offset is that of
    /// the youngest newest sample: no sample is from the future.
    fn anchor(&mut self, newest: u64, now: Timestamp) -> i128 {
        let age = i128::from(now.as_nanos()) - i128::from(newest) * NANOS_PER_MICROSECOND;
        if self.offset.is_none() && age.abs() <= MAX_UTC_SKEW {
            return 0;
        }
        let offset = self.offset.map_or(age, |offset| offset.min(age));
        self.offset = Some(offset);
        offset
    }
}

/// The median time between samples; `None` for fewer than two.
fn period(samples: &[Sample]) -> Option<Nanos> {
    let later = samples.iter().skip(1);
    let gaps = samples.iter().zip(later).map(|(a, b)| micros(b.stamp - a.stamp));
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

fn micros(micros: u64) -> Nanos {
    Nanos(micros.saturating_mul(1_000))
}

fn to_system_time(stamp: u64, offset: i128) -> Option<Timestamp> {
    let nanos = i128::from(stamp) * NANOS_PER_MICROSECOND + offset;
    u64::try_from(nanos).ok().and_then(Timestamp::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE_AFTER: Nanos = Nanos::SECOND;
    const PERIOD: u64 = 100_000;

    /// Samples `from` to `to` of a buffer with one sample per 100 ms, with their number as value.
    fn samples(from: u64, to: u64, zero: u64) -> Vec<Sample> {
        (from..to).map(|k| Sample { stamp: zero + k * PERIOD, value: k % 100 }).collect()
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000).unwrap()
    }

    fn drain(ring: &mut SampleRing, mut samples: Vec<Sample>, now: Timestamp) -> Vec<Interval> {
        let mut emitted = Vec::new();
        ring.drain(&mut samples, now, |interval| emitted.push(interval));
        emitted
    }

    const UTC: u64 = 1_767_225_600_000_000;

    #[test]
    fn samples_are_emitted_once_and_contiguously() {
        let mut ring = SampleRing::new(STALE_AFTER);
        let first = drain(&mut ring, samples(0, 100, UTC), at(UTC + 100 * PERIOD));
        assert_eq!(first, [], "the ring reaches back before the run");
        assert_eq!(ring.drain_interval(), Nanos::from_secs(5));

        let emitted = drain(&mut ring, samples(50, 150, UTC), at(UTC + 150 * PERIOD));
        assert_eq!(emitted.len(), 50);
        assert_eq!(emitted[0].from, at(UTC + 99 * PERIOD));
        assert_eq!(emitted[49].to, at(UTC + 149 * PERIOD));
        assert!(emitted.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!(emitted[7].utilization, Utilization::from_percent(7).unwrap());
    }

    #[test]
    fn samples_after_empty_drain_are_new() {
        let mut ring = SampleRing::new(STALE_AFTER);
        assert_eq!(drain(&mut ring, Vec::new(), at(UTC + 10 * PERIOD + 40_000)), []);
        let emitted = drain(&mut ring, samples(10, 15, UTC), at(UTC + 15 * PERIOD));
        // The first sample ends before the drain, the second is cut by it.
        let lasts: Vec<_> =
            emitted.iter().map(|emitted| emitted.to.since(emitted.from).0 / 1_000).collect();
        assert_eq!(lasts, [60_000, PERIOD, PERIOD, PERIOD]);
    }

    #[test]
    fn unordered_samples_are_sorted_and_invalid_ones_dropped() {
        let mut ring = SampleRing::new(STALE_AFTER);
        drain(&mut ring, samples(0, 10, UTC), at(UTC + 10 * PERIOD));
        let mut unordered = samples(5, 15, UTC);
        unordered.reverse();
        unordered.push(Sample { stamp: 0, value: 50 });
        unordered.push(Sample { stamp: UTC + 15 * PERIOD, value: 4_294_967_295 });
        let emitted = drain(&mut ring, unordered, at(UTC + 16 * PERIOD));
        assert_eq!(emitted.len(), 5);
        assert!(emitted.is_sorted_by_key(|interval| interval.from));
    }

    #[test]
    fn sample_after_gap_covers_its_period() {
        let mut ring = SampleRing::new(STALE_AFTER);
        drain(&mut ring, samples(0, 10, UTC), at(UTC + 10 * PERIOD));
        let emitted = drain(&mut ring, samples(40, 45, UTC), at(UTC + 45 * PERIOD));
        assert_eq!(emitted[0].to.since(emitted[0].from), Nanos::from_millis(100));
        assert_eq!(emitted.len(), 5);
    }

    #[test]
    fn timestamps_since_boot_are_converted_to_utc() {
        let mut ring = SampleRing::new(STALE_AFTER);
        let boot = 86_400_000_000;
        drain(&mut ring, samples(0, 100, boot), at(UTC + 99 * PERIOD + 40_000));
        let emitted = drain(&mut ring, samples(50, 150, boot), at(UTC + 149 * PERIOD + 7_000));
        assert_eq!(emitted.last().unwrap().to, at(UTC + 149 * PERIOD + 7_000));
        assert!(emitted.windows(2).all(|pair| pair[0].to == pair[1].from));
        // The newest sample is older now: the offset stays.
        let emitted = drain(&mut ring, samples(60, 160, boot), at(UTC + 159 * PERIOD + 90_000));
        assert_eq!(emitted.last().unwrap().to, at(UTC + 159 * PERIOD + 7_000));
    }
}
