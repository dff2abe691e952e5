//! Infers from the first rows of a log that does not identify its GPUs how many are interleaved.
//!
//! Each possible number is tried: it fits if most rows form ticks of as many rows.

use phasemeter_meter::units::{Nanos, Timestamp};

use super::spacing::Spacing;

/// Maximum number of interleaved GPUs.
const MAX_GPUS: usize = 64;

/// Fewer pauses are inconclusive.
const MIN_PAUSES: usize = 4;

/// One of the first lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Row(Timestamp),
    Torn,
    Header,
}

/// The times of the first rows of a log.
#[derive(Debug, Default)]
pub(super) struct Head {
    lines: Vec<Line>,
    rows: usize,
}

/// Whether the rows match a number of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// At least 80% of the ticks are complete, with distinct pauses between them.
    Match,
    /// Some are: rows may be missing, or pauses short.
    Possible,
    Mismatch,
    TooShort,
}

impl Head {
    /// Adds a row.
    pub(super) fn push(&mut self, at: Timestamp) {
        self.lines.push(Line::Row(at));
        self.rows += 1;
    }

    /// Adds a torn row. It has a position in its tick, but no time.
    pub(super) fn push_torn(&mut self) {
        self.lines.push(Line::Torn);
    }

    /// Adds a header, which starts the tick again.
    pub(super) fn push_header(&mut self) {
        self.lines.push(Line::Header);
    }

    /// All matching numbers of GPUs, from 2.
    pub(super) fn candidates(&self) -> Vec<u32> {
        (2..=64).filter(|gpus| self.fit(*gpus) == Fit::Match).collect()
    }

    /// Whether this number of GPUs matches. First ticks are ignored, because a driver takes time to
    /// wake up. One incomplete tick never prevents a match.
    pub(super) fn fit(&self, gpus: u32) -> Fit {
        let gpus = gpus as usize;
        if !(2..=MAX_GPUS).contains(&gpus) {
            return Fit::Mismatch;
        }
        let pauses = self.intervals(gpus).len() / gpus;
        let too_few = || if pauses < MIN_PAUSES { Fit::TooShort } else { Fit::Mismatch };
        let Some(spacing) = self.spacing(gpus).filter(|_| self.rows >= gpus) else {
            return too_few();
        };
        let (complete, adjacent) = self.whole_ticks(gpus, spacing);
        let all = complete + adjacent;
        let most = all * 5 >= pauses * 4 || all + 1 >= pauses;
        if pauses >= MIN_PAUSES && spacing.is_distinct() && most && complete * 2 >= all {
            Fit::Match
        } else if complete * 3 >= pauses {
            Fit::Possible
        } else {
            too_few()
        }
    }

    /// The typical times between rows of this number of GPUs.
    pub(super) fn spacing(&self, gpus: usize) -> Option<Spacing> {
        let after_first_ticks = self.intervals(gpus);
        // In a log of one tick there is nothing after it.
        let all = || self.intervals(0);
        let is_short = after_first_ticks.is_empty();
        Spacing::of(if is_short { all() } else { after_first_ticks }, gpus)
    }

    /// The intervals between rows from this position on, counted from each header.
    fn intervals(&self, from: usize) -> Vec<Nanos> {
        let (mut intervals, mut last, mut position) = (Vec::new(), None, 0);
        for line in &self.lines {
            last = match (line, last) {
                (Line::Row(at), Some(last)) if position >= from => {
                    intervals.push(at.since(last));
                    Some(*at)
                }
                (Line::Row(at), _) => Some(*at),
                (Line::Torn | Line::Header, _) => None,
            };
            position = if *line == Line::Header { 0 } else { position + 1 };
        }
        intervals
    }

    /// The number of whole ticks: between two pauses, and without a pause. First ticks do not count.
    fn whole_ticks(&self, gpus: usize, spacing: Spacing) -> (usize, usize) {
        let (mut complete, mut adjacent) = (0, 0);
        let (mut rows, mut torn, mut last, mut is_first) = (0_usize, 0, None, true);
        let mut end_tick = |rows: usize, is_first: bool| match rows / gpus {
            _ if !rows.is_multiple_of(gpus) || is_first && rows <= gpus => {}
            1 => complete += 1,
            ticks => adjacent += ticks - usize::from(is_first),
        };
        for line in &self.lines {
            match line {
                Line::Row(at) => {
                    let interval = last.replace(*at).map(|last| at.since(last));
                    if interval.is_some_and(|interval| interval >= spacing.min_pause()) && rows > 0
                    {
                        // Torn rows at the pause are the last ones of this tick if it lacks any.
                        let missing = torn.min(rows.next_multiple_of(gpus) - rows);
                        end_tick(rows + missing, is_first);
                        (rows, torn, is_first) = (0, torn - missing, false);
                    }
                    rows += std::mem::take(&mut torn) + 1;
                }
                Line::Torn => torn += 1,
                Line::Header => {
                    end_tick(rows + torn, is_first);
                    (rows, torn, last, is_first) = (0, 0, None, true);
                }
            }
        }
        end_tick(rows + torn, is_first);
        (complete, adjacent)
    }
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

    fn head(rows: &[u64]) -> Head {
        let mut head = Head::default();
        rows.iter().for_each(|millis| head.push(at(*millis)));
        head
    }

    #[test]
    fn single_gpu_matches_no_count() {
        let even: Vec<_> = (0..1_000).map(|row| row * 100).collect();
        let jittery: Vec<_> = (0..1_000).map(|row| row * 100 + row * row * 7 % 31).collect();
        let with_pauses: Vec<_> = (0..1_000).map(|row| row * 100 + row / 97 * 5_000).collect();
        let whole_seconds: Vec<_> = (0..1_000).map(|row| row / 10 * 1_000).collect();
        for rows in [even, jittery, with_pauses] {
            assert!(head(&rows).candidates().is_empty());
        }
        // Ten rows in the same second cannot be distinguished from ten GPUs.
        assert_eq!(head(&whole_seconds).candidates(), [10_u32]);
    }

    #[test]
    fn short_log_is_inconclusive() {
        let rows: Vec<_> = (0..10).map(|row| row / 2 * 1_000 + row % 2).collect();
        assert_eq!(head(&rows).fit(2), Fit::Match);
        assert_eq!(head(&rows[..9]).fit(2), Fit::Possible);
        assert_eq!(head(&rows).fit(1), Fit::Mismatch);
        assert_eq!(head(&rows).fit(65), Fit::Mismatch);
        let even: Vec<_> = (0..9).map(|row| row * 1_000).collect();
        assert_eq!(head(&even).fit(2), Fit::TooShort);
        assert_eq!(head(&rows[..2]).fit(2), Fit::Possible);
        assert_eq!(head(&rows[..2]).fit(3), Fit::TooShort);
    }

    #[test]
    fn invalid_row_keeps_its_position() {
        let mut head = Head::default();
        for position in 0..100 {
            if position % 7 == 3 {
                head.push_torn();
            } else {
                head.push(at(position / 4 * 1_000 + position % 4));
            }
        }
        assert_eq!(head.candidates(), [4]);
    }

    #[test]
    fn header_restarts_the_tick() {
        let mut head = Head::default();
        for run in 0..3 {
            head.push_header();
            // Each run ends within a tick.
            for position in 0..50 {
                head.push(at(run * 90_000 + position / 3 * 1_000 + position % 3));
            }
        }
        assert_eq!(head.candidates(), [3]);
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
            let head = head(&rows);
            prop_assert_eq!(head.fit(u32::try_from(log.gpus).unwrap()), Fit::Match);
        }

        /// One missing row anywhere never excludes the correct number. Jitter within ticks may look like
        /// ticks of fewer GPUs; the log is then ambiguous.
        #[test]
        fn correct_count_matches_despite_missing_row(
            mut log in logs(),
            missing in any::<prop::sample::Index>(),
        ) {
            let mut rows = log.rows();
            rows.remove(missing.index(rows.len()));
            let gpus = u32::try_from(log.gpus).unwrap();
            prop_assert_eq!(head(&rows).fit(gpus), Fit::Match);
            log.jitter.fill(0);
            let mut rows = log.rows();
            rows.remove(missing.index(rows.len()));
            prop_assert_eq!(head(&rows).candidates(), [gpus]);
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
            prop_assert_eq!(head(&rows).fit(gpus), Fit::Match);
        }
    }
}
