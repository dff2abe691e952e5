//! Converts the driver's ring buffer of utilization samples to intervals, in order and in the time of
//! the run.

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, Interval};
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::ring_clock::{Anchor, RingClock};
use crate::clock::ClockReading;

/// Maximum time between drains: no sample is older than this plus one period when it is emitted,
/// well within the allowed lateness.
const MAX_DRAIN_INTERVAL: Nanos = Nanos::from_secs(10);

/// Minimum time between drains, even for a small buffer.
const MIN_DRAIN_INTERVAL: Nanos = Nanos::SECOND;

/// Time between drains while the depth is unknown: half the depth of typical drivers is 8 s.
const DEFAULT_DRAIN_INTERVAL: Nanos = Nanos::from_secs(5);

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
    clock: RingClock,
    /// The driver's timestamp of the last emitted sample, and its end in the time of the run.
    last: Option<(u64, Timestamp)>,
    drain_interval: Nanos,
}

impl SampleRing {
    /// A sample covers at most `stale_after`.
    pub(super) fn new(stale_after: Nanos) -> Self {
        let drain_interval = DEFAULT_DRAIN_INTERVAL;
        Self { stale_after, clock: RingClock::default(), last: None, drain_interval }
    }

    /// The drain interval: half the depth of the buffer.
    pub(super) const fn drain_interval(&self) -> Nanos {
        self.drain_interval
    }

    /// Processes the whole buffer as of `at`, in any order, and emits new samples, oldest first. The
    /// content of the first drain is not new: it predates the run.
    pub(super) fn drain(
        &mut self,
        samples: &mut Vec<Sample>,
        at: Timestamp,
        clocks: &ClockReading,
        mut emit: impl FnMut(Interval),
    ) {
        samples.retain(|sample| sample.stamp > 0 && ppm(sample.value).is_some());
        let mut samples = means(samples);
        let last = self.last.map(|(stamp, _)| stamp);
        let anchor = self.clock.anchor(&mut samples, last, at, clocks);
        let Some(newest) = samples.last().map(|sample| sample.0) else {
            // The GPU was idle. All later samples are new.
            self.last.get_or_insert((0, at));
            return;
        };
        let period = period(&samples).unwrap_or(self.stale_after);
        let depth = period.saturating_mul(u64::try_from(samples.len()).unwrap_or(u64::MAX));
        self.drain_interval = Nanos(depth.0 / 2).clamp(MIN_DRAIN_INTERVAL, MAX_DRAIN_INTERVAL);

        let (Some((mut before, mut end)), Anchor::Same(offset)) = (self.last, anchor) else {
            let end = self.last.map_or(Timestamp::EPOCH, |(_, end)| end);
            self.last = Some((newest, end));
            return;
        };
        let first_new = samples.partition_point(|(stamp, _)| *stamp <= before);
        for (stamp, utilization) in samples.into_iter().skip(first_new) {
            let gap = micros(stamp.saturating_sub(before));
            // If samples are missing, this one covers only its own period.
            let covered = if gap <= self.stale_after { gap } else { period.min(self.stale_after) };
            before = stamp;
            let Some(to) = offset.instant(stamp) else { continue };
            let from = to.saturating_sub(covered).max(end);
            if from < to {
                emit(Interval { basis: Basis::NvmlSamples, from, to, utilization });
                end = to;
            }
        }
        self.last = Some((before, end));
    }
}

/// From percent; `None` if it is out of range.
fn ppm(percent: u64) -> Option<u64> {
    Quantity::Utilization.admit(percent.checked_mul(10_000)?)
}

/// The mean of the samples at each timestamp, in order: a driver with a coarse clock gives several
/// samples the same one.
fn means(samples: &mut [Sample]) -> Vec<(u64, Utilization)> {
    samples.sort_unstable();
    let same = samples.chunk_by(|a, b| a.stamp == b.stamp);
    let mean = |samples: &[Sample]| {
        let percent: u64 = samples.iter().map(|sample| sample.value).sum();
        let ppm = (percent * 10_000).checked_div(u64::try_from(samples.len()).ok()?)?;
        Some((samples.first()?.stamp, Utilization::from_ppm(u32::try_from(ppm).ok()?)?))
    };
    same.filter_map(mean).collect()
}

/// The median time between samples; `None` for fewer than two.
fn period(samples: &[(u64, Utilization)]) -> Option<Nanos> {
    let later = samples.iter().skip(1);
    let gaps = samples.iter().zip(later).map(|(a, b)| micros(b.0 - a.0));
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

const fn micros(micros: u64) -> Nanos {
    Nanos(micros.saturating_mul(1_000))
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

    const UTC: u64 = 1_767_225_600_000_000;

    /// The time since boot in the year of [`UTC`], in microseconds.
    const BOOT: u64 = 86_400_000_000;

    /// A wall clock that has not stepped since the start of the run.
    fn clocks(now: Timestamp) -> ClockReading {
        let boot = Nanos((now.as_nanos() / 1_000 - UTC + BOOT) * 1_000);
        ClockReading { boot, awake: boot, wall: now, gap: Nanos::ZERO }
    }

    fn drain(ring: &mut SampleRing, samples: Vec<Sample>, now: Timestamp) -> Vec<Interval> {
        drain_at(ring, samples, now, &clocks(now))
    }

    fn drain_at(
        ring: &mut SampleRing,
        mut samples: Vec<Sample>,
        now: Timestamp,
        clocks: &ClockReading,
    ) -> Vec<Interval> {
        let mut emitted = Vec::new();
        ring.drain(&mut samples, now, clocks, |interval| emitted.push(interval));
        emitted
    }

    /// The time-weighted mean, in percent.
    fn mean(emitted: &[Interval]) -> f64 {
        let length = |it: &Interval| it.to.since(it.from).as_secs_f64();
        let busy: f64 = emitted.iter().map(|it| it.utilization.percent() * length(it)).sum();
        busy / emitted.iter().map(length).sum::<f64>()
    }

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
    fn timestamps_since_boot_are_converted_exactly() {
        let mut ring = SampleRing::new(STALE_AFTER);
        drain(&mut ring, samples(0, 100, BOOT), at(UTC + 99 * PERIOD + 40_000));
        let emitted = drain(&mut ring, samples(50, 150, BOOT), at(UTC + 149 * PERIOD + 7_000));
        assert_eq!(emitted.last().unwrap().to, at(UTC + 149 * PERIOD));
        assert!(emitted.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn timestamps_of_another_clock_are_converted_by_the_newest() {
        let mut ring = SampleRing::new(STALE_AFTER);
        let zero = 7_000_000;
        drain(&mut ring, samples(0, 100, zero), at(UTC + 99 * PERIOD + 40_000));
        let emitted = drain(&mut ring, samples(50, 150, zero), at(UTC + 149 * PERIOD + 7_000));
        assert_eq!(emitted.last().unwrap().to, at(UTC + 149 * PERIOD + 7_000));
        assert!(emitted.windows(2).all(|pair| pair[0].to == pair[1].from));
        // The newest sample is older now: the offset stays.
        let emitted = drain(&mut ring, samples(60, 160, zero), at(UTC + 159 * PERIOD + 90_000));
        assert_eq!(emitted.last().unwrap().to, at(UTC + 159 * PERIOD + 7_000));
        // That clock is set back: samples count again after one drain.
        let back = zero - 3_000_000;
        assert_eq!(drain(&mut ring, samples(160, 180, back), at(UTC + 180 * PERIOD)), []);
        let emitted = drain(&mut ring, samples(160, 200, back), at(UTC + 200 * PERIOD));
        assert_eq!(emitted.len(), 20);
        assert_eq!(emitted.last().unwrap().to, at(UTC + 200 * PERIOD));
    }

    #[test]
    fn wrong_timestamp_removes_its_sample_only() {
        for wrong in [1, UTC - 1_000_000_000, UTC + 5_000_000_000, UTC * 2, u64::MAX] {
            for zero in [UTC, BOOT, 7_000_000] {
                let mut ring = SampleRing::new(STALE_AFTER);
                let mut emitted = 0;
                for second in 1..=10 {
                    let mut buffer = samples(second * 50 - 50, second * 50 + 50, zero);
                    if second == 5 {
                        buffer.push(Sample { stamp: wrong, value: 100 });
                    }
                    let now = at(UTC + (second * 50 + 50) * PERIOD);
                    emitted += drain(&mut ring, buffer, now).len();
                }
                assert_eq!(emitted, 9 * 50, "{wrong} among samples since {zero}");
            }
        }
    }

    /// 50 ms of work in each second, with a sample of 100% a few seconds in the future.
    #[test]
    fn samples_from_the_future_do_not_change_the_mean() {
        let mut ring = SampleRing::new(STALE_AFTER);
        let mut emitted = Vec::new();
        let early = |k: u64| Sample { stamp: UTC + k * PERIOD + 3_030_000, value: 100 };
        for drained in (10..400_u64).step_by(10) {
            let from = drained.saturating_sub(100);
            let value = |k: u64| if k.is_multiple_of(10) { 50 } else { 0 };
            let mut buffer: Vec<_> = (from..drained)
                .map(|k| Sample { stamp: UTC + k * PERIOD, value: value(k) })
                .collect();
            buffer.extend((from..drained).step_by(10).map(early));
            emitted.extend(drain(&mut ring, buffer, at(UTC + drained * PERIOD)));
        }
        assert!((mean(&emitted) - 5.0).abs() < 0.1, "{}", mean(&emitted));
    }

    /// The same work, stamped by a clock that counts whole seconds.
    #[test]
    fn samples_with_one_timestamp_count_with_their_mean() {
        let mut ring = SampleRing::new(STALE_AFTER);
        let mut emitted = Vec::new();
        for drained in (50..500_u64).step_by(50) {
            let sample = |k: u64| {
                let value = if k.is_multiple_of(10) { 50 } else { 0 };
                Sample { stamp: UTC + (k / 10 + 1) * 10 * PERIOD, value }
            };
            let buffer = (drained.saturating_sub(100)..drained).map(sample).collect();
            emitted.extend(drain(&mut ring, buffer, at(UTC + drained * PERIOD)));
        }
        assert!((mean(&emitted) - 5.0).abs() < 1e-9, "{}", mean(&emitted));
    }

    /// The wall clock is set back by 10 s or forward by an hour, and the driver follows it.
    #[test]
    fn samples_after_a_step_continue_in_the_time_of_the_run() {
        for step in [-9_987_000_i64, 3_600_000_000] {
            let mut ring = SampleRing::new(STALE_AFTER);
            let mut emitted = Vec::new();
            for drained in (50..=500_u64).step_by(50) {
                let shifted = |micros: u64, k: u64| {
                    if k > 220 { micros.strict_add_signed(step) } else { micros }
                };
                let sample = |k: u64| Sample { stamp: shifted(UTC + k * PERIOD, k), value: 40 };
                let buffer = (drained.saturating_sub(100)..drained).map(sample).collect();
                let now = at(UTC + drained * PERIOD);
                let wall = at(shifted(UTC + drained * PERIOD, drained));
                let clocks = ClockReading { wall, ..clocks(now) };
                emitted.extend(drain_at(&mut ring, buffer, now, &clocks));
            }
            assert!(emitted.is_sorted_by(|a, b| a.to <= b.from), "{step}");
            assert!(emitted.iter().all(|it| it.to < at(UTC + 500 * PERIOD)), "{step}");
            let covered: Nanos = emitted.iter().map(|it| it.to.since(it.from)).sum();
            // The first drain and that after the step are not known to be new.
            assert!(covered >= Nanos::from_secs(35), "{step}: {covered:?}");
        }
    }
}
