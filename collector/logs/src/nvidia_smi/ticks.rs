//! Divides the rows of a log that does not identify its GPUs into ticks.
//!
//! The rows of one tick are close together, and the next tick follows after a pause. A tick has one row
//! per GPU; if any is missing, the GPUs of the others are unknown. Where pauses are missing, or within a
//! tick, the alignment that explains the rows best divides them.

use phasemeter_meter::units::{Nanos, Timestamp};

use super::alignment::{self, End, Gap};
use super::spacing::{MIN_CONTRAST, Spacing};

/// Number of pauses whose median is the expected pause, so that it follows a changed interval.
const RECENT: usize = 5;

/// Number of successive ticks that are split, or follow one that is, after which their pauses count.
const MAX_SPLIT: usize = 32;

/// Number of successive ticks without a distinct pause, after which rows can't be assigned.
const MAX_BURST: usize = 4;

/// Number of ticks in doubt after which the first half is divided.
const WINDOW: usize = 8;

/// Consecutive rows of at most one tick. `None` is a torn row: it has a position, but no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick<R> {
    pub(super) rows: Vec<Option<R>>,
    pub(super) kind: TickKind,
}

/// Whether a tick has a row of each GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TickKind {
    /// It has: row i belongs to GPU i.
    Complete,
    /// The input ended within it: row i belongs to GPU i.
    Truncated,
    /// Rows are missing, and it is unknown which.
    Incomplete,
}

/// Divides rows into ticks, in memory for a few ticks.
#[derive(Debug)]
pub(super) struct Ticks<R> {
    gpus: usize,
    spacing: Spacing,
    /// Recent pauses, the oldest at `oldest`.
    recent: [Nanos; RECENT],
    oldest: usize,
    /// Rows since the last tick. The first one begins a tick.
    rows: Vec<(Gap, Option<R>)>,
    last: Option<Timestamp>,
    /// Torn rows since the last row.
    torn: usize,
    /// Whether the next tick is the first since the start or a restart: a driver takes time to wake up.
    is_first: bool,
    /// Number of ticks since the last distinct pause.
    burst: usize,
    /// Whether the last tick was split in time, and the number of pauses beside such ticks since the last
    /// other one.
    was_split: bool,
    beside_split: usize,
    /// Whether the last tick lacked rows.
    was_incomplete: bool,
}

impl<R> Ticks<R> {
    /// Ticks of `gpus` rows with this spacing.
    pub(super) const fn new(gpus: usize, spacing: Spacing) -> Self {
        Self {
            gpus,
            spacing,
            recent: [spacing.between; RECENT],
            oldest: 0,
            rows: Vec::new(),
            last: None,
            torn: 0,
            is_first: true,
            burst: 0,
            was_split: false,
            beside_split: 0,
            was_incomplete: false,
        }
    }

    /// Adds a row. Completed ticks are appended to `out`.
    pub(super) fn push(&mut self, at: Timestamp, row: R, out: &mut Vec<Tick<R>>) {
        let first = self.spacing.between;
        let interval = self.last.replace(at).map_or(first, |last| at.since(last));
        if self.ends_plain_tick(interval) {
            if self.rows.len() == self.gpus {
                self.was_incomplete = false;
                self.emit(self.gpus, false, false, out);
            } else {
                self.divide(End::Tick(interval), out);
            }
        } else if self.rows.len() >= WINDOW * self.gpus {
            self.divide(End::Anywhere, out);
        }
        let is_after_torn = self.torn > 0;
        self.add_torn(interval);
        let within = if is_after_torn { Nanos::ZERO } else { interval };
        self.rows.push((Gap { between: interval, within }, Some(row)));
    }

    /// Adds a torn row. It has a position in its tick, but no time.
    pub(super) const fn push_torn(&mut self) {
        self.torn += 1;
        if self.torn > 2 * self.gpus {
            self.torn -= self.gpus;
        }
    }

    /// Ends the input, or starts the tick again after a header.
    pub(super) fn restart(&mut self, out: &mut Vec<Tick<R>>) {
        self.add_torn(Nanos::ZERO);
        while !self.rows.is_empty() {
            self.divide(End::Anywhere, out);
        }
        (self.last, self.torn, self.is_first, self.burst) = (None, 0, true, 0);
    }

    /// Whether the last rows are a tick between regular pauses, without any doubt.
    fn ends_plain_tick(&self, pause: Nanos) -> bool {
        let is_regular = |pause: Nanos| pause >= self.spacing.regular_pause();
        if !is_regular(pause) || self.torn > 0 {
            return false;
        }
        let start = self.rows.len().checked_sub(self.gpus);
        let Some([(first, row), rest @ ..]) = start.and_then(|start| self.rows.get(start..)) else {
            return false;
        };
        let is_close =
            |(gap, row): &(Gap, Option<R>)| row.is_some() && gap.within <= self.spacing.short();
        is_regular(first.between) && row.is_some() && rest.iter().all(is_close)
    }

    /// Divides the rows. If anything may follow within the last tick, only the first half of many rows.
    fn divide(&mut self, end: End, out: &mut Vec<Tick<R>>) {
        let gaps: Vec<Gap> = self.rows.iter().map(|(gap, _)| *gap).collect();
        let is_all = end != End::Anywhere || gaps.len() < WINDOW * self.gpus;
        let lengths = alignment::lengths(&gaps, end, self.gpus, self.spacing, self.is_first);
        let mut divided = 0;
        for (place, length) in lengths.iter().copied().enumerate() {
            if divided > 0 && !is_all && divided + length > gaps.len() / 2 {
                break;
            }
            let gaps_of_tick = gaps.get(divided..divided + length).unwrap_or_default();
            divided += length;
            let is_last = end == End::Anywhere && divided == gaps.len();
            let follows_incomplete =
                std::mem::replace(&mut self.was_incomplete, length != self.gpus);
            let precedes_incomplete = lengths.get(place + 1).is_some_and(|next| *next != self.gpus);
            // Beside a tick with missing rows, another division would explain an unusual tick, too.
            let is_ambiguous = (follows_incomplete || precedes_incomplete)
                && !self.is_first
                && !self.is_usual(gaps_of_tick);
            self.emit(length, is_last, is_ambiguous, out);
        }
    }

    /// Whether a tick begins after a regular pause, and its rows are close together.
    fn is_usual(&self, gaps: &[Gap]) -> bool {
        let Some((first, rest)) = gaps.split_first() else { return false };
        first.between >= self.spacing.regular_pause()
            && rest.iter().all(|gap| gap.within <= self.spacing.close())
    }

    /// Appends the first rows as a tick.
    fn emit(&mut self, length: usize, is_last: bool, is_ambiguous: bool, out: &mut Vec<Tick<R>>) {
        let length = length.min(self.rows.len());
        let gaps = || self.rows.iter().take(length).map(|(gap, _)| *gap);
        let pause = gaps().next().map(|gap| gap.between).unwrap_or_default();
        let longest = gaps().skip(1).map(|gap| gap.within).max().unwrap_or_default();
        let is_distinct = pause >= self.spacing.min_pause()
            || (pause > Nanos::ZERO && pause >= longest.saturating_mul(MIN_CONTRAST));
        self.burst = if is_distinct { 0 } else { self.burst + 1 };
        let kind = if is_last && length < self.gpus {
            TickKind::Truncated
        } else if length == self.gpus && self.burst <= MAX_BURST && !is_ambiguous {
            TickKind::Complete
        } else {
            TickKind::Incomplete
        };
        // A pause beside a split tick is shorter.
        let is_split = longest > self.spacing.short();
        let was_split = std::mem::replace(&mut self.was_split, is_split);
        let is_beside = is_split || was_split;
        self.beside_split = if is_beside { self.beside_split + 1 } else { 0 };
        let is_usual = !is_beside || self.beside_split > MAX_SPLIT;
        if kind == TickKind::Complete && is_distinct && is_usual && !self.is_first {
            self.record_pause(pause);
        }
        self.is_first = false;
        let rows = self.rows.drain(..length).map(|(_, row)| row);
        out.push(Tick { rows: rows.collect(), kind });
    }

    /// Updates the expected pause.
    fn record_pause(&mut self, pause: Nanos) {
        if let Some(oldest) = self.recent.get_mut(self.oldest) {
            *oldest = pause;
        }
        self.oldest = (self.oldest + 1) % RECENT;
        let mut sorted = self.recent;
        sorted.sort_unstable();
        let between = sorted[RECENT / 2].max(self.spacing.within);
        self.spacing = Spacing { between, ..self.spacing };
    }

    fn add_torn(&mut self, between: Nanos) {
        let gap = Gap { between, within: Nanos::ZERO };
        self.rows.extend((0..self.torn).map(|_| (gap, None)));
        self.torn = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SPACING: Spacing =
        Spacing { within: Nanos::from_millis(3), between: Nanos::from_millis(1_000) };

    /// The ticks of rows at these milliseconds. Negative numbers are torn rows.
    fn divide(gpus: usize, rows: &[i64]) -> Vec<(TickKind, Vec<Option<i64>>)> {
        let (mut ticks, mut out) = (Ticks::new(gpus, SPACING), Vec::new());
        for row in rows {
            match u64::try_from(*row) {
                Ok(millis) => {
                    ticks.push(Timestamp::from_millis(millis).unwrap(), *row, &mut out);
                }
                Err(_) => ticks.push_torn(),
            }
        }
        ticks.restart(&mut out);
        out.into_iter().map(|tick| (tick.kind, tick.rows)).collect()
    }

    fn kinds(gpus: usize, rows: &[i64]) -> Vec<TickKind> {
        divide(gpus, rows).into_iter().map(|(kind, _)| kind).collect()
    }

    use TickKind::{Complete, Incomplete, Truncated};

    #[test]
    fn tick_without_row_is_incomplete() {
        assert_eq!(
            kinds(3, &[0, 3, 6, 1_000, 1_006, 2_000, 2_003, 2_006, 3_000]),
            [Complete, Incomplete, Complete, Truncated]
        );
    }

    #[test]
    fn torn_row_keeps_its_position() {
        let rows = [0, 3, -1, 1_000, 1_003, 1_006, -1, 2_003, 2_006, 3_000, -1, 3_006];
        let ticks = divide(3, &rows);
        assert!(ticks.iter().all(|(kind, _)| *kind == Complete), "{ticks:?}");
        assert_eq!(ticks[2].1, [None, Some(2_003), Some(2_006)]);
        assert_eq!(ticks[3].1, [Some(3_000), None, Some(3_006)]);
    }

    #[test]
    fn interrupted_tick_is_complete() {
        let rows = [0, 3, 6, 1_000, 1_003, 11_006, 12_000, 12_003, 12_006];
        assert_eq!(kinds(3, &rows), [Complete; 3]);
        // The driver took a second per GPU to wake up.
        assert_eq!(kinds(3, &[0, 1_000, 2_000, 3_000, 3_003, 3_006]), [Complete; 2]);
    }

    #[test]
    fn ticks_without_pause_are_complete() {
        let rows = [0, 3, 1_000, 1_003, 1_006, 1_009, 2_000, 2_003];
        assert_eq!(kinds(2, &rows), [Complete; 4]);
        // Without any pauses, a missing row would not show.
        let rows: Vec<i64> = (0..200).map(|row| row * 3).collect();
        assert_eq!(kinds(2, &rows)[5..99], [Incomplete; 94]);
    }

    /// As of eight H100: the first row is early, the last one late, or several are.
    #[test]
    fn split_tick_is_complete() {
        for split in [1, 4, 7] {
            let mut rows: Vec<i64> = (0..8 * 20).map(|row| row / 8 * 107 + row % 8 * 2).collect();
            for tick in [3, 4, 5, 9, 19] {
                rows[tick * 8..tick * 8 + split].iter_mut().for_each(|row| *row -= 60);
                assert_eq!(kinds(8, &rows), [Complete; 20], "split at {split}");
            }
        }
    }

    #[test]
    fn changed_interval_is_followed() {
        for every in [50_i64, 60_000] {
            let rows: Vec<i64> = (0..90)
                .map(|row| if row < 30 { row / 3 * 1_000 } else { 9_000 + (row / 3 - 9) * every } + row % 3 * 3)
                .collect();
            let found = kinds(3, &rows);
            assert_eq!(found, [Complete; 30], "every {every} ms");
        }
    }

    /// The complete ticks of rows at these milliseconds, each with its number: no row is that of another GPU.
    fn complete_ticks(gpus: usize, spacing: Spacing, rows: &[(u64, usize)]) -> BTreeSet<usize> {
        let (mut ticks, mut out, mut complete) =
            (Ticks::new(gpus, spacing), Vec::new(), BTreeSet::new());
        for (millis, row) in rows {
            ticks.push(Timestamp::from_millis(*millis).unwrap(), *row, &mut out);
        }
        ticks.restart(&mut out);
        assert_eq!(out.iter().flat_map(|tick| &tick.rows).count(), rows.len());
        for tick in out.iter().filter(|tick| tick.kind == Complete) {
            for (gpu, row) in tick.rows.iter().enumerate() {
                assert_eq!(row.unwrap() % gpus, gpu);
                complete.insert(row.unwrap() / gpus);
            }
        }
        complete
    }

    proptest! {
        /// Whatever rows are missing, no row is assigned to another GPU, and ticks without a missing
        /// row are complete. Excluded: rows of two ticks that could be one tick, interrupted or with its
        /// first or last row apart.
        #[test]
        fn missing_rows_affect_their_ticks_only(
            gpus in 2_usize..=16,
            every in prop::sample::select(vec![200_u64, 1_000, 60_000]),
            missing in prop::collection::btree_set(0_usize..16 * 60, 0..12),
        ) {
            let damaged: BTreeSet<usize> = missing.iter().map(|row| row / gpus).collect();
            let has_rows = |tick: &usize| (0..gpus).any(|gpu| !missing.contains(&(tick * gpus + gpu)));
            let present: Vec<usize> = (0..60).filter(has_rows).collect();
            let is_interruption = |pair: &[usize]| {
                let may_be_long = pair[0] == present[0] || pair[1] > pair[0] + 1;
                let left = pair.iter().map(|tick| {
                    (0..gpus).filter(|gpu| !missing.contains(&(tick * gpus + gpu))).count()
                });
                let may_be_split = gpus >= 4 && left.sum::<usize>() == gpus;
                (may_be_long || may_be_split) && pair.iter().all(|tick| damaged.contains(tick))
            };
            prop_assume!(!present.windows(2).any(is_interruption));
            let at = |row: usize| (row / gpus) as u64 * every + (row % gpus) as u64 * 3;
            let rows = (0..gpus * 60).filter(|row| !missing.contains(row));
            let rows: Vec<(u64, usize)> = rows.map(|row| (at(row), row)).collect();
            let within = Nanos::from_millis(3);
            let between = Nanos::from_millis(every - (gpus as u64 - 1) * 3);
            let complete = complete_ticks(gpus, Spacing { within, between }, &rows);
            // A damaged tick of which all rows are missing has no rows.
            for tick in 0..60 {
                prop_assert_eq!(complete.contains(&tick), !damaged.contains(&tick), "tick {}", tick);
            }
        }

        /// Whatever ticks are split, anywhere, none is incomplete but those with a missing row and, if
        /// ambiguous, those beside them; and no row is assigned to another GPU.
        #[test]
        fn split_ticks_are_whole(
            gpus in 2_usize..=16,
            every in prop::sample::select(vec![150_u64, 250, 500, 1_000, 60_000]),
            splits in prop::collection::btree_map(1_usize..59, (1_usize..16, 50_u64..=70, any::<bool>()), 0..20),
            sleeps in any::<bool>(),
            missing in prop::collection::btree_map(1_usize..59, 0_usize..16, 0..3),
        ) {
            // A split that leaves less than a regular pause is no longer one.
            let (mut delay, mut rows) = (0, Vec::new());
            for row in 0..gpus * 60 {
                let (tick, gpu) = (row / gpus, row % gpus);
                let start = tick as u64 * every + gpu as u64 * 2;
                let (from, by, is_early) = splits.get(&tick).copied().unwrap_or((1, 0, false));
                let is_late = gpu >= from % gpus && from % gpus > 0;
                let shift = if is_early && !sleeps { 0 } else { by };
                let at = start + delay + if is_late { shift } else { 0 };
                let early = if is_early && !sleeps && !is_late && from % gpus > 0 { by } else { 0 };
                rows.push((1_000 + at - early, row));
                let ends = gpu + 1 == gpus && from % gpus > 0;
                delay += if sleeps && ends { by } else { 0 };
            }
            let is_missing = |row: &usize| missing.get(&(row / gpus)).is_some_and(|gpu| gpu % gpus == row % gpus);
            let damaged: BTreeSet<usize> = missing.keys().copied().collect();
            // A damaged tick that is split, too, may look like a part of the next one.
            prop_assume!(damaged.iter().all(|tick| !splits.contains_key(tick)));
            // Of few GPUs, the rows of a damaged tick and of a split one beside it may look like a tick.
            let is_near = |tick: &usize| {
                damaged.contains(&(tick + 1)) || (tick - 1..=tick + 1).any(|tick| splits.contains_key(&tick))
            };
            prop_assume!(gpus >= 4 || !damaged.iter().any(is_near));
            let between = Nanos::from_millis(every - (gpus as u64 - 1) * 2);
            rows.retain(|(_, row)| !is_missing(row));
            let spacing = Spacing { within: Nanos::from_millis(2), between };
            let complete = complete_ticks(gpus, spacing, &rows);
            for tick in 0..60_usize {
                // Near a damaged tick, split ones may be ambiguous.
                if damaged.range(tick.saturating_sub(2)..=tick + 2).all(|damaged| *damaged == tick) {
                    prop_assert_eq!(complete.contains(&tick), !damaged.contains(&tick), "tick {}", tick);
                }
            }
        }
    }
}
