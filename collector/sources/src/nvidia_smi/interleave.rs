//! How many GPUs take turns in a log that does not name them, seen from the time between its rows.
//!
//! The rows of one tick come close together, and the next tick after a pause: the pause_count times
//! between rows stand before the first row of a tick.

use std::cmp::Reverse;

use phasemeter_meter::units::{Nanos, Timestamp};

/// The most GPUs that rows are searched for.
const MAX_GPUS: usize = 64;

/// Fewer pauses show nothing.
const MIN_PAUSES: usize = 4;

/// The times between the first rows of a log, each with the position of the row behind it.
#[derive(Debug, Default)]
pub(super) struct Spacing {
    last: Option<Timestamp>,
    intervals: Vec<(usize, Nanos)>,
}

/// What the spacing of rows says of a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Match,
    Mismatch,
    TooShort,
}

impl Spacing {
    /// A row, `position` rows behind its header.
    pub(super) fn record(&mut self, position: usize, at: Timestamp) {
        if let Some(last) = self.last.replace(at) {
            self.intervals.push((position, at.since(last)));
        }
    }

    /// Something that has no time, or a header: the time across it says nothing.
    pub(super) const fn interrupt(&mut self) {
        self.last = None;
    }

    /// The numbers of GPUs, from 2, that fit.
    pub(super) fn candidates(&self) -> Vec<u32> {
        (2..=64).filter(|gpus| self.fit(*gpus) == Fit::Match).collect()
    }

    /// Whether so many GPUs fit: 80 % of the pause_count 1/N of the times stand before the first row
    /// of a tick, and the median of the times there is at least three times that of the others.
    /// The first tick is left out: a driver takes its time to wake up.
    pub(super) fn fit(&self, gpus: u32) -> Fit {
        let gpus = gpus as usize;
        if !(2..=MAX_GPUS).contains(&gpus) {
            return Fit::Mismatch;
        }
        let mut intervals: Vec<_> =
            self.intervals.iter().copied().filter(|(position, _)| *position >= gpus).collect();
        let pause_count = intervals.len() / gpus;
        if pause_count < MIN_PAUSES {
            return Fit::TooShort;
        }
        // Of equally long times the earlier goes first: the sort is stable.
        intervals.sort_by_key(|(_, time)| Reverse(*time));
        let starts_tick = |(position, _): &(usize, Nanos)| position % gpus == 0;
        let hits =
            intervals.iter().take(pause_count).filter(|interval| starts_tick(interval)).count();
        let (pauses, others): (Vec<_>, Vec<_>) = intervals.iter().copied().partition(starts_tick);
        match (median(&pauses), median(&others)) {
            (Some(pause), Some(other))
                if hits * 5 >= pause_count * 4 && pause >= other.saturating_mul(3) =>
            {
                Fit::Match
            }
            _ => Fit::Mismatch,
        }
    }
}

/// The median of sorted times, the longer one of two.
fn median(sorted: &[(usize, Nanos)]) -> Option<Nanos> {
    // Sorted from the pause_count: of an even number the longer middle one comes first.
    sorted.get(sorted.len().saturating_sub(1) / 2).map(|(_, time)| *time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A log of `gpus` GPUs: `ticks` of them `period` ms apart, the rows of each `spread` ms
    /// apart on top of some jitter.
    #[derive(Clone, Debug)]
    struct GeneratedLog {
        gpus: usize,
        ticks: usize,
        period: u64,
        spread: u64,
        jitter: Vec<u64>,
    }

    fn generated() -> impl Strategy<Value = GeneratedLog> {
        (2_usize..=16, 6_usize..60, 100_u64..2_000).prop_flat_map(|(gpus, ticks, period)| {
            let spread = 0..=period / (gpus as u64 * 8);
            let jitter = proptest::collection::vec(0..=period / (gpus as u64 * 8), gpus * ticks);
            (spread, jitter).prop_map(move |(spread, jitter)| GeneratedLog {
                gpus,
                ticks,
                period,
                spread,
                jitter,
            })
        })
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    impl GeneratedLog {
        fn rows(&self) -> Vec<u64> {
            let position = |row: usize| {
                (row / self.gpus) as u64 * self.period
                    + (row % self.gpus) as u64 * self.spread
                    + self.jitter[row]
            };
            let mut rows: Vec<_> = (0..self.gpus * self.ticks).map(position).collect();
            // One GPU's row is written after the other's.
            for row in 1..rows.len() {
                rows[row] = rows[row].max(rows[row - 1]);
            }
            rows
        }
    }

    fn spacing(rows: &[u64]) -> Spacing {
        let mut spacing = Spacing::default();
        for (position, millis) in rows.iter().enumerate() {
            spacing.record(position, at(*millis));
        }
        spacing
    }

    #[test]
    fn one_gpu_is_not_taken_for_several() {
        let even: Vec<_> = (0..1_000).map(|row| row * 100).collect();
        let jittery: Vec<_> = (0..1_000).map(|row| row * 100 + row * row * 7 % 31).collect();
        let with_pauses: Vec<_> = (0..1_000).map(|row| row * 100 + row / 97 * 5_000).collect();
        let whole_seconds: Vec<_> = (0..1_000).map(|row| row / 10 * 1_000).collect();
        for rows in [even, jittery, with_pauses] {
            assert!(spacing(&rows).candidates().is_empty());
        }
        // Ten rows that share a second look like ten GPUs, and nothing could tell otherwise.
        assert_eq!(spacing(&whole_seconds).candidates(), [10_u32]);
    }

    #[test]
    fn a_short_log_shows_nothing() {
        let rows: Vec<_> = (0..10).map(|row| row / 2 * 1_000 + row % 2).collect();
        assert_eq!(spacing(&rows).fit(2), Fit::Match);
        assert_eq!(spacing(&rows[..9]).fit(2), Fit::TooShort);
        assert_eq!(spacing(&rows).fit(1), Fit::Mismatch);
        assert_eq!(spacing(&rows).fit(65), Fit::Mismatch);
    }

    #[test]
    fn a_torn_row_keeps_its_place() {
        let mut spacing = Spacing::default();
        for position in 0..100 {
            if position % 7 == 3 {
                spacing.interrupt();
            } else {
                spacing.record(position, at((position / 4 * 1_000 + position % 4) as u64));
            }
        }
        assert_eq!(spacing.candidates(), [4]);
    }

    #[test]
    fn a_header_starts_the_tick_again() {
        let mut spacing = Spacing::default();
        for run in 0..3 {
            spacing.interrupt();
            // Each run ends in the middle of a tick.
            for position in 0..50 {
                spacing.record(
                    position,
                    at((run * 90_000 + position / 3 * 1_000 + position % 3) as u64),
                );
            }
        }
        assert_eq!(spacing.candidates(), [3]);
    }

    proptest! {
            /// The right number candidates, whatever the jitter, the last tick, and a slow first tick.
            #[test]
            fn the_right_number_fits(generated in generated(), cut in 0_usize..16, slow in 0_u64..900) {
                let mut rows = generated.rows();
                for (position, millis) in rows.iter_mut().enumerate() {
                    *millis += slow * position.min(generated.gpus - 1) as u64;
                }
                rows.truncate(rows.len() - cut.min(generated.gpus - 1));
                let spacing = spacing(&rows);
                prop_assert_eq!(spacing.fit(u32::try_from(generated.gpus).unwrap()), Fit::Match);
            }

            /// Pauses of the whole machine, in the middle of ticks too, do not hide it.
            #[test]
            fn pauses_do_not_hide_it(
                mut generated in generated(), pauses in proptest::collection::vec(any::<prop::sample::Index>(), 3),
            ) {
                generated.ticks = 60;
                generated.jitter = vec![0; generated.gpus * 60];
                let mut rows = generated.rows();
                for pause in pauses {
                    let from = pause.index(rows.len());
                    rows[from..].iter_mut().for_each(|millis| *millis += 10_000);
                }
    let gpus = u32::try_from(generated.gpus).unwrap();
                prop_assert_eq!(spacing(&rows).fit(gpus), Fit::Match);
            }
        }
}
