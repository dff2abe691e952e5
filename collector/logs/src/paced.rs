//! Plays back a source in real time, or a multiple of it.
//!
//! Readings get new timestamps, shifted so that the last one is at the end of the playback: none is
//! in the future, which backends reject, and at speed 1 each has the current time. Timestamps shift
//! by whole seconds, so that metering results do not change.

use std::num::NonZeroU32;
use std::time::Duration;

use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::{Source, SourceError};
use phasemeter_sources::clock::Clock;

/// A source at the pace of the clock.
pub struct Paced<S, W> {
    source: S,
    length: Nanos,
    speed: u64,
    clock: Clock,
    /// Set by the first reading.
    origin: Option<Origin>,
    /// Waits for a duration; returns whether to continue.
    wait: W,
}

/// One instant on three clocks.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// In the source.
    source: Timestamp,
    /// In the new timestamps.
    stamp: Timestamp,
    /// On the clock.
    clock: Timestamp,
}

impl<S: Source, W: FnMut(Duration) -> bool> Paced<S, W> {
    /// Plays at `speed` times real time. `length` is the time from the first reading to the last.
    /// The source ends once `wait` returns false.
    pub fn new(source: S, length: Nanos, speed: NonZeroU32, wait: W) -> Self {
        let speed = u64::from(speed.get());
        Self { source, length, speed, clock: Clock::start(), origin: None, wait }
    }

    /// Starts at this reading. At the end of the source, timestamps and clock agree.
    fn start_at(&self, at: Timestamp) -> Origin {
        let now = self.clock.now();
        let end = now + self.scaled(self.length);
        let stamp = end.saturating_sub(self.length).floor_second() + at.since(at.floor_second());
        Origin { source: at, stamp, clock: now }
    }

    /// Playback time of a duration of the source.
    const fn scaled(&self, length: Nanos) -> Nanos {
        Nanos(length.0 / self.speed)
    }
}

impl<S: Source, W: FnMut(Duration) -> bool> Source for Paced<S, W> {
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError> {
        let Some((gpu, reading)) = self.source.next()? else { return Ok(None) };
        let origin = self.origin.unwrap_or_else(|| self.start_at(reading.at));
        self.origin = Some(origin);
        let since = reading.at.since(origin.source);
        let due = origin.clock + self.scaled(since);
        let left = due.since(self.clock.now());
        let proceed = left == Nanos::ZERO || (self.wait)(Duration::from_nanos(left.0));
        Ok(proceed.then(|| (gpu, Reading { at: origin.stamp + since, ..reading })))
    }

    fn gpus(&self) -> &[GpuIdentity] {
        self.source.gpus()
    }

    fn take_holder_changes(&mut self) -> Vec<(usize, HolderChange)> {
        let changes = self.source.take_holder_changes();
        let Some(origin) = self.origin else { return changes };
        let stamp = |at: Timestamp| origin.stamp + at.since(origin.source);
        changes.into_iter().map(|(gpu, change)| (gpu, change.map_times(stamp))).collect()
    }

    fn reject(&mut self, reason: &str) {
        self.source.reject(reason);
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::NANOS_PER_SECOND;

    use super::super::demo::Demo;
    use super::*;

    fn speed(speed: u32) -> NonZeroU32 {
        NonZeroU32::new(speed).unwrap()
    }

    /// The difference of two instants in seconds.
    fn apart(a: Timestamp, b: Timestamp) -> u64 {
        a.since(b).max(b.since(a)).0 / NANOS_PER_SECOND
    }

    #[test]
    fn realtime_playback_has_current_timestamps() {
        let (mut plain, mut waits) = (Demo::new(1), Vec::new());
        let now = Clock::start().now();
        let mut paced = Paced::new(Demo::new(1), Demo::LENGTH, speed(1), |wait| {
            waits.push(wait);
            true
        });
        let mut first = None;
        for _ in 0..10_000 {
            let expected = plain.next().unwrap().unwrap();
            let (gpu, reading) = paced.next().unwrap().unwrap();
            assert_eq!((gpu, Reading { at: expected.1.at, ..reading }), expected);
            let moved = reading.at.as_nanos().abs_diff(expected.1.at.as_nanos());
            assert_eq!(moved % NANOS_PER_SECOND, 0);
            let since = expected.1.at.since(*first.get_or_insert(expected.1.at));
            assert!(apart(reading.at, now + since) <= 1, "{:?}", reading.at);
        }
        drop(paced);
        // `wait` returns at once, so the last wait covers all readings before it.
        assert!(waits.last().unwrap() > &Duration::from_secs(120), "{:?}", waits.last());
    }

    #[test]
    fn fast_playback_ends_at_current_time() {
        let before = Clock::start().now();
        let mut paced = Paced::new(Demo::new(1), Demo::LENGTH, speed(36_000), |wait| {
            std::thread::sleep(wait);
            true
        });
        let mut last = Timestamp::EPOCH;
        while let Some((_, reading)) = paced.next().unwrap() {
            assert!(reading.at <= Clock::start().now(), "it lies in the future");
            last = last.max(reading.at);
        }
        let after = Clock::start().now();
        assert!(after.since(before) >= Nanos::from_millis(190), "{:?}", after.since(before));
        assert!(apart(last, after) <= 2, "{last:?} and {after:?}");
    }

    #[test]
    fn playback_ends_when_wait_returns_false() {
        let mut left = 10;
        let mut paced = Paced::new(Demo::new(1), Demo::LENGTH, speed(1), |_| {
            left -= 1;
            left > 0
        });
        let mut readings = 0;
        while paced.next().unwrap().is_some() {
            readings += 1;
        }
        assert!(readings < 100, "{readings}");
    }
}
