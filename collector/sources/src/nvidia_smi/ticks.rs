//! Divides the rows of a log that does not identify its GPUs into ticks.
//!
//! The rows of one tick are close together, and the next tick follows after a pause. A tick has one
//! row per GPU; if any is missing, the GPUs of the others are unknown. Must not depend on the content
//! of rows or on how the number of GPUs was determined.

use std::cmp::Reverse;

use phasemeter_meter::units::{Nanos, Timestamp};

/// Ticks have distinct pauses if the median pause is at least this many times the median interval
/// between the rows of a tick.
const MIN_CONTRAST: u64 = 3;

/// Number of pauses whose median is the expected pause, so that it follows a changed interval.
const RECENT: usize = 5;

/// Number of ticks without a pause between them, after which the pauses must have become shorter.
const MAX_BURST: usize = 4;

/// Typical times between rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spacing {
    /// Between rows of the same tick.
    within: Nanos,
    /// Between the last row of a tick and the first row of the next.
    between: Nanos,
}

impl Spacing {
    /// The upper median of the longest 1/`gpus` of the intervals, and that of the others. `None` if
    /// there are no intervals.
    pub(super) fn of(mut intervals: Vec<Nanos>, gpus: usize) -> Option<Self> {
        intervals.sort_unstable_by_key(|interval| Reverse(*interval));
        let pauses = (intervals.len() / gpus).max(1);
        let (longest, others) = intervals.split_at_checked(pauses)?;
        // Descending: the longer of two middle intervals comes first.
        let median = |sorted: &[Nanos]| sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        Some(Self { within: median(others).unwrap_or_default(), between: median(longest)? })
    }

    /// Whether pauses are much longer than the intervals within ticks.
    pub(super) const fn is_distinct(self) -> bool {
        self.between.0 >= self.within.0.saturating_mul(MIN_CONTRAST)
    }

    /// The shortest interval that counts as a pause.
    const fn min_pause(self) -> Nanos {
        Nanos(self.within.0.midpoint(self.between.0).saturating_add(1))
    }

    /// The longest interval that counts as a regular pause. In a longer one the logger was stopped,
    /// between ticks or within one.
    const fn max_pause(self) -> Nanos {
        Nanos(self.between.0.saturating_add(self.between.0.saturating_sub(self.min_pause().0)))
    }
}

/// Consecutive rows of at most one tick. `None` is a torn row: it has a position, but no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick<R> {
    pub(super) rows: Vec<Option<R>>,
    pub(super) kind: TickKind,
}

/// Whether a tick has a row of each GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TickKind {
    /// It has, between two pauses: row i belongs to GPU i.
    Complete,
    /// It has, but follows another tick without a pause.
    Adjacent,
    /// The input ended within it: row i belongs to GPU i.
    Truncated,
    /// Rows are missing, and it is unknown which.
    Incomplete,
}

/// Divides rows into ticks, in memory for a few ticks.
#[derive(Debug)]
pub(super) struct Ticks<R> {
    gpus: usize,
    within: Nanos,
    /// Recent pauses, the oldest at `oldest`.
    recent: [Nanos; RECENT],
    oldest: usize,
    spacing: Spacing,
    /// Rows since the last pause, each with the interval before it.
    rows: Vec<(Nanos, Option<R>)>,
    /// Rows before it that may be of the same tick.
    held: Vec<Option<R>>,
    last: Option<Timestamp>,
    /// Torn rows since the last row.
    torn: usize,
    /// Whether this is the first tick since the start or a restart: a driver takes time to wake up.
    is_first: bool,
}

impl<R> Ticks<R> {
    /// Ticks of `gpus` rows with this spacing.
    pub(super) const fn new(gpus: usize, spacing: Spacing) -> Self {
        Self {
            gpus,
            within: spacing.within,
            recent: [spacing.between; RECENT],
            oldest: 0,
            spacing,
            rows: Vec::new(),
            held: Vec::new(),
            last: None,
            torn: 0,
            is_first: true,
        }
    }

    /// Adds a row. Completed ticks are appended to `out`.
    pub(super) fn push(&mut self, at: Timestamp, row: R, out: &mut Vec<Tick<R>>) {
        let interval = self.last.replace(at).map(|last| at.since(last)).unwrap_or_default();
        if interval >= self.spacing.min_pause() && !self.rows.is_empty() {
            // Torn rows at the pause are the last ones of this tick if it lacks any.
            let missing = self.rows.len().next_multiple_of(self.gpus) - self.rows.len();
            self.add_torn(missing);
            self.close(interval, out);
        }
        self.add_torn(usize::MAX);
        self.rows.push((interval, Some(row)));
        if self.rows.len() > MAX_BURST * self.gpus {
            self.divide(out);
        }
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
        self.add_torn(self.gpus);
        let rows = self.take_rows();
        let mut held = std::mem::take(&mut self.held);
        if rows.len().is_multiple_of(self.gpus) {
            self.finish(std::mem::take(&mut held), out);
        } else if held.len() + rows.len() > self.gpus {
            give_up(std::mem::take(&mut held), out);
        }
        held.extend(rows);
        if held.len() < self.gpus {
            if !held.is_empty() {
                out.push(Tick { rows: held, kind: TickKind::Truncated });
            }
        } else {
            self.finish(held, out);
        }
        (self.last, self.torn, self.is_first) = (None, 0, true);
    }

    /// Closes the tick before a pause.
    fn close(&mut self, pause: Nanos, out: &mut Vec<Tick<R>>) {
        let rows = self.take_rows();
        let mut held = std::mem::take(&mut self.held);
        if rows.len().is_multiple_of(self.gpus) {
            self.finish(held, out);
            self.finish(rows, out);
            self.is_first = false;
            self.record_pause(pause);
            return;
        }
        // An interruption divides a tick. Whether it did is certain once the tick is followed by a
        // complete one.
        if held.len() + rows.len() > self.gpus {
            give_up(std::mem::take(&mut held), out);
        }
        held.extend(rows);
        let may_continue =
            held.len() == self.gpus || pause > self.spacing.max_pause() || self.is_first;
        if may_continue && held.len() <= self.gpus {
            self.held = held;
        } else {
            self.is_first = false;
            give_up(held, out);
        }
    }

    /// Divides rows in which no pause was found, since pauses have become shorter. If there are none,
    /// the rows are incomplete.
    fn divide(&mut self, out: &mut Vec<Tick<R>>) {
        let longest = self.rows.iter().skip(1).map(|(interval, _)| *interval).max();
        let spacing = Spacing { within: self.within, between: longest.unwrap_or_default() };
        if spacing.is_distinct() && spacing.between > Nanos::ZERO {
            (self.spacing, self.recent) = (spacing, [spacing.between; RECENT]);
            for (interval, row) in std::mem::take(&mut self.rows) {
                if interval >= self.spacing.min_pause() && !self.rows.is_empty() {
                    self.close(interval, out);
                }
                self.rows.push((interval, row));
            }
        } else {
            give_up(self.take_rows(), out);
        }
    }

    /// Appends whole ticks, or rows of an incomplete one.
    fn finish(&self, mut rows: Vec<Option<R>>, out: &mut Vec<Tick<R>>) {
        if !rows.len().is_multiple_of(self.gpus) {
            give_up(rows, out);
            return;
        }
        let alone = rows.len() == self.gpus;
        let kind = if alone { TickKind::Complete } else { TickKind::Adjacent };
        while !rows.is_empty() {
            let rest = rows.split_off(self.gpus);
            out.push(Tick { rows: std::mem::replace(&mut rows, rest), kind });
        }
    }

    /// Updates the expected pause.
    fn record_pause(&mut self, pause: Nanos) {
        if let Some(oldest) = self.recent.get_mut(self.oldest) {
            *oldest = pause;
        }
        self.oldest = (self.oldest + 1) % RECENT;
        let mut sorted = self.recent;
        sorted.sort_unstable();
        let between = sorted[RECENT / 2].max(self.within);
        self.spacing = Spacing { within: self.within, between };
    }

    fn add_torn(&mut self, most: usize) {
        let added = self.torn.min(most);
        self.torn -= added;
        self.rows.extend((0..added).map(|_| (Nanos::ZERO, None)));
    }

    fn take_rows(&mut self) -> Vec<Option<R>> {
        self.rows.drain(..).map(|(_, row)| row).collect()
    }
}

/// Appends rows of unknown GPUs.
fn give_up<R>(rows: Vec<Option<R>>, out: &mut Vec<Tick<R>>) {
    if !rows.is_empty() {
        out.push(Tick { rows, kind: TickKind::Incomplete });
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

    use TickKind::{Adjacent, Complete, Incomplete, Truncated};

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
    fn ticks_without_pause_are_adjacent() {
        let rows = [0, 3, 1_000, 1_003, 1_006, 1_009, 2_000, 2_003];
        assert_eq!(kinds(2, &rows), [Complete, Adjacent, Adjacent, Complete]);
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

    proptest! {
        /// Whatever rows are missing, no row is assigned to another GPU, and ticks without a missing
        /// row are complete. Excluded: rows of two ticks that could be one tick, interrupted.
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
                may_be_long && pair.iter().all(|tick| damaged.contains(tick))
            };
            prop_assume!(!present.windows(2).any(is_interruption));
            let times: Vec<u64> = (0..gpus * 60)
                .map(|row| (row / gpus) as u64 * every + (row % gpus) as u64 * 3)
                .collect();
            let rows: Vec<usize> = (0..times.len()).filter(|row| !missing.contains(row)).collect();
            let within = Nanos::from_millis(3);
            let between = Nanos::from_millis(every - (gpus as u64 - 1) * 3);
            let mut ticks = Ticks::new(gpus, Spacing { within, between });
            let mut out = Vec::new();
            for row in &rows {
                let at = Timestamp::from_millis(times[*row]).unwrap();
                ticks.push(at, *row, &mut out);
            }
            ticks.restart(&mut out);
            prop_assert_eq!(out.iter().flat_map(|tick| &tick.rows).count(), rows.len());
            let mut complete = BTreeSet::new();
            for tick in out.iter().filter(|tick| matches!(tick.kind, Complete | Adjacent)) {
                for (gpu, row) in tick.rows.iter().enumerate() {
                    prop_assert_eq!(row.unwrap() % gpus, gpu);
                    complete.insert(row.unwrap() / gpus);
                }
            }
            // A damaged tick of which all rows are missing has no rows.
            for tick in 0..60 {
                prop_assert_eq!(complete.contains(&tick), !damaged.contains(&tick), "tick {}", tick);
            }
        }
    }
}
