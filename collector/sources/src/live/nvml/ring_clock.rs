//! The clock of the driver's sample buffer: converts its timestamps to the time of the run.
//!
//! Drivers stamp samples by the wall clock, by a clock that counts from boot, or by another one. Single
//! timestamps may be wrong.

use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use crate::clock::ClockReading;

/// The buffer holds seconds. A timestamp farther than this from the median is wrong.
const MAX_SPREAD: u64 = 600 * MICROS_PER_SECOND;

/// The newest sample is at most this old; an idle GPU may have had none for as long.
const MAX_AGE: u64 = 60 * MICROS_PER_SECOND;

/// A sample that is this far in the future is wrong, and not just early.
const MAX_EARLY: u64 = MICROS_PER_SECOND;

/// Timestamps known to be wrong, at most: a whole buffer.
const MAX_WRONG: usize = 256;

/// A larger change of the offset is a step of a clock.
const MIN_STEP: u128 = 500_000_000;

/// A smaller change of the offset is due to reading two clocks one after the other.
const MIN_CHANGE: u128 = 1_000_000;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// A timestamp in microseconds and a value.
type Sample = (u64, Utilization);

/// The time of the run minus the driver's time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset(i128);

impl Offset {
    /// The instant with this timestamp; `None` if it is out of range.
    pub(super) fn instant(self, stamp: u64) -> Option<Timestamp> {
        let nanos = i128::from(stamp) * 1_000 + self.0;
        u64::try_from(nanos).ok().and_then(Timestamp::from_nanos)
    }

    const fn change(self, other: Self) -> u128 {
        self.0.abs_diff(other.0)
    }
}

/// How to convert timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// As in the last drain.
    Same(Offset),
    /// By a clock that has stepped: which samples are new is unknown.
    Changed,
}

/// State between drains.
#[derive(Debug, Default)]
pub(super) struct RingClock {
    offset: Option<Offset>,
    /// The time of the last drain.
    drained_at: Option<Timestamp>,
    /// Timestamps that were once far in the future.
    wrong: Vec<u64>,
}

impl RingClock {
    /// Removes samples with wrong or future timestamps, and returns how to convert the others, which are
    /// in order. `last` is the newest timestamp of the last drain.
    pub(super) fn anchor(
        &mut self,
        samples: &mut Vec<Sample>,
        last: Option<u64>,
        at: Timestamp,
        clocks: &ClockReading,
    ) -> Anchor {
        if let Some((median, _)) = samples.get(samples.len() / 2).copied() {
            samples.retain(|(stamp, _)| stamp.abs_diff(median) <= MAX_SPREAD);
        }
        let reference = reference(samples, clocks);
        if let Some(reference) = reference {
            self.drop_future(samples, reference);
        }
        let drained_at = self.drained_at.replace(at).unwrap_or(at);
        let Some(newest) = samples.last().map(|sample| sample.0) else { return Anchor::Changed };
        let offset = match (reference, self.offset) {
            (Some(reference), _) => offset(at, reference),
            (None, Some(known)) if last == Some(newest) => known,
            (None, known) => {
                // No sample is from the future, and a new one is not older than the last drain.
                let from = drained_at.saturating_sub(Nanos(MAX_EARLY * 1_000));
                let fits = |known: &Offset| {
                    known.instant(newest).is_some_and(|newest| from <= newest && newest <= at)
                };
                known.filter(fits).unwrap_or_else(|| offset(at, newest))
            }
        };
        let before = self.offset.replace(offset).unwrap_or(offset);
        if before.change(offset) >= MIN_STEP || last.is_some_and(|last| newest < last) {
            return Anchor::Changed;
        }
        let kept = if before.change(offset) < MIN_CHANGE { before } else { offset };
        self.offset = Some(kept);
        Anchor::Same(kept)
    }

    /// Removes samples from the future. Those far in it stay removed when their time has come.
    fn drop_future(&mut self, samples: &mut Vec<Sample>, reference: u64) {
        if let Some((oldest, _)) = samples.first().copied() {
            self.wrong.retain(|stamp| *stamp >= oldest);
        }
        let early = samples.iter().map(|sample| sample.0);
        let wrong = early.filter(|stamp| *stamp > reference + MAX_EARLY);
        let wrong: Vec<_> = wrong.filter(|stamp| !self.wrong.contains(stamp)).collect();
        self.wrong.extend(wrong);
        self.wrong.truncate(MAX_WRONG);
        samples.retain(|(stamp, _)| *stamp <= reference && !self.wrong.contains(stamp));
    }
}

/// The clock the samples use, in microseconds: the one closest after the newest sample.
fn reference(samples: &[Sample], clocks: &ClockReading) -> Option<u64> {
    let micros = [clocks.wall.as_nanos(), clocks.boot.0, clocks.awake.0].map(|nanos| nanos / 1_000);
    let age = |reference: u64| {
        let newest = samples.iter().rev().find(|(stamp, _)| *stamp <= reference)?.0;
        Some(reference - newest).filter(|age| *age <= MAX_AGE)
    };
    let ages = micros.into_iter().filter_map(|reference| Some((age(reference)?, reference)));
    ages.min_by_key(|(age, _)| *age).map(|(_, reference)| reference)
}

fn offset(at: Timestamp, stamp: u64) -> Offset {
    Offset(i128::from(at.as_nanos()) - i128::from(stamp) * 1_000)
}
