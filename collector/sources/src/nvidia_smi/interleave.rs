//! Infers from the time between rows how many GPUs are interleaved in a log that does not identify
//! them.
//!
//! The rows of one tick are close together, and the next tick follows after a pause. The longest
//! intervals therefore precede the first row of a tick.

use std::cmp::Reverse;

use phasemeter_meter::units::{Nanos, Timestamp};

/// Maximum number of interleaved GPUs.
const MAX_GPUS: usize = 64;

/// Fewer pauses are inconclusive.
const MIN_PAUSES: usize = 4;

/// The intervals between the first rows of a log, each with the position of the row after it.
#[derive(Debug, Default)]
pub(super) struct Spacing {
    last: Option<Timestamp>,
    intervals: Vec<(usize, Nanos)>,
}

/// Whether the spacing of rows matches a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Match,
    Mismatch,
    TooShort,
}

impl Spacing {
    /// Adds a row at its distance from the header.
    pub(super) fn record(&mut self, position: usize, at: Timestamp) {
        if let Some(last) = self.last.replace(at) {
            self.intervals.push((position, at.since(last)));
        }
    }

    /// Ignores the interval across a header or a row without a timestamp.
    pub(super) const fn interrupt(&mut self) {
        self.last = None;
    }

    /// All matching numbers of GPUs, from 2.
    pub(super) fn candidates(&self) -> Vec<u32> {
        (2..=64).filter(|gpus| self.fit(*gpus) == Fit::Match).collect()
    }

    /// Whether this number of GPUs matches: at least 80% of the longest 1/N intervals precede the
    /// first row of a tick, and the median interval there is at least three times the median of the
    /// others. The first tick is ignored, because a driver takes time to wake up.
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
        // The sort is stable: the earlier of equal intervals comes first.
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

/// The upper median of intervals sorted in descending order.
fn median(sorted: &[(usize, Nanos)]) -> Option<Nanos> {
    // Descending: the longer of two middle intervals comes first.
    sorted.get(sorted.len().saturating_sub(1) / 2).map(|(_, time)| *time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A log of `gpus` GPUs: `ticks` ticks `period` ms apart, with rows `spread` ms apart plus
    /// jitter.
    #[derive(Clone, Debug)]
    struct GeneratedLog {
        gpus: usize,
        ticks: usize,
        period: u64,
        spread: u64,
        jitter: Vec<u64>,
    }

    fn logs() -> impl Strategy<Value = GeneratedLog> {
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
            // Rows are written one after another.
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
    fn single_gpu_matches_no_count() {
        let even: Vec<_> = (0..1_000).map(|row| row * 100).collect();
        let jittery: Vec<_> = (0..1_000).map(|row| row * 100 + row * row * 7 % 31).collect();
        let with_pauses: Vec<_> = (0..1_000).map(|row| row * 100 + row / 97 * 5_000).collect();
        let whole_seconds: Vec<_> = (0..1_000).map(|row| row / 10 * 1_000).collect();
        for rows in [even, jittery, with_pauses] {
            assert!(spacing(&rows).candidates().is_empty());
        }
        // Ten rows in the same second cannot be distinguished from ten GPUs.
        assert_eq!(spacing(&whole_seconds).candidates(), [10_u32]);
    }

    #[test]
    fn short_log_is_inconclusive() {
        let rows: Vec<_> = (0..10).map(|row| row / 2 * 1_000 + row % 2).collect();
        assert_eq!(spacing(&rows).fit(2), Fit::Match);
        assert_eq!(spacing(&rows[..9]).fit(2), Fit::TooShort);
        assert_eq!(spacing(&rows).fit(1), Fit::Mismatch);
        assert_eq!(spacing(&rows).fit(65), Fit::Mismatch);
    }

    #[test]
    fn invalid_row_keeps_its_position() {
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
    fn header_restarts_the_tick() {
        let mut spacing = Spacing::default();
        for run in 0..3 {
            spacing.interrupt();
            // Each run ends within a tick.
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
        /// The correct number matches despite jitter, a partial last tick and a slow first tick.
        #[test]
        fn correct_count_matches(log in logs(), cut in 0_usize..16, slow in 0_u64..900) {
            let mut rows = log.rows();
            for (position, millis) in rows.iter_mut().enumerate() {
                *millis += slow * position.min(log.gpus - 1) as u64;
            }
            rows.truncate(rows.len() - cut.min(log.gpus - 1));
            let spacing = spacing(&rows);
            prop_assert_eq!(spacing.fit(u32::try_from(log.gpus).unwrap()), Fit::Match);
        }

        /// Pauses of the whole machine, even within ticks, do not change the result.
        #[test]
        fn correct_count_matches_despite_pauses(
            mut log in logs(),
            pauses in proptest::collection::vec(any::<prop::sample::Index>(), 3),
        ) {
            log.ticks = 60;
            log.jitter = vec![0; log.gpus * 60];
            let mut rows = log.rows();
            for pause in pauses {
                let from = pause.index(rows.len());
                rows[from..].iter_mut().for_each(|millis| *millis += 10_000);
            }
            let gpus = u32::try_from(log.gpus).unwrap();
            prop_assert_eq!(spacing(&rows).fit(gpus), Fit::Match);
        }
    }
}
