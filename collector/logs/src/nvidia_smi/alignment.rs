//! Finds the ticks in rows whose division is in doubt: the alignment that explains the times of all of
//! them best.
//!
//! Each division has a cost: that of ticks with missing rows, of pauses within a tick, and of ticks that
//! begin without a pause.

use std::cmp::Ordering;

use phasemeter_meter::units::Nanos;

use super::spacing::Spacing;

/// A tick without a row of each GPU. Two of them cost more than one tick that is split in time.
const INCOMPLETE: u32 = 16;

/// A tick with more rows than GPUs.
const TOO_LONG: u32 = 24;

/// A pause within a tick that is shorter than those between ticks.
const SPLIT: u32 = 4;

/// A pause within a tick in which the logger was stopped, or that separates its first or last row.
const SEPARATE: u32 = 12;

/// A pause within a tick as long as those between ticks: more than two ticks with missing rows, since
/// their rows would be assigned to other GPUs.
const REGULAR: u32 = 40;

/// A tick that begins without any pause.
const NO_PAUSE: u32 = 8;

/// Rows of a GPU that may be apart from the others of a tick, after or before a regular pause. With fewer
/// GPUs it is as likely that rows are missing.
const MIN_GPUS_SEPARATE: usize = 4;

/// The time before a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// If a tick begins with the row.
    pub(super) between: Nanos,
    /// If the row is of the same tick as the one before it. Zero if that or this row is torn: it has no
    /// time, but a place.
    pub(super) within: Nanos,
}

/// The line after the last row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Another tick, after this time.
    Tick(Nanos),
    /// Anything: the last tick may be incomplete.
    Anywhere,
}

/// The rows of each tick. `is_first`: the first one may take any time, since a driver wakes up.
pub(super) fn lengths(
    gaps: &[Gap],
    end: End,
    gpus: usize,
    spacing: Spacing,
    is_first: bool,
) -> Vec<usize> {
    let inner = Inner::of(gaps, gpus, spacing, is_first);
    // Of each number of rows, the cheapest division, and the length of its last tick.
    let mut best: Vec<(u32, usize)> = vec![(0, 0)];
    for rows in 1..=gaps.len() {
        let after = gaps.get(rows).map(|gap| gap.between);
        let after = after.or(if let End::Tick(pause) = end { Some(pause) } else { None });
        let cost_of = |length: usize| {
            let start = rows.checked_sub(length)?;
            let (before, _) = best.get(start)?;
            let pause = gaps.get(start)?.between;
            let missing = match length.cmp(&gpus) {
                Ordering::Less if after.is_some() => INCOMPLETE,
                Ordering::Less | Ordering::Equal => 0,
                Ordering::Greater => TOO_LONG,
            };
            let begin = if start == 0 { 0 } else { spacing.cost_of_begin(pause) };
            let within = inner.cost(start, rows, pause, after);
            Some((before + begin + within + missing, length))
        };
        // Of equal ones a whole tick.
        let lengths = std::iter::once(gpus).chain((1..2 * gpus).filter(|length| *length != gpus));
        let cheapest = lengths.filter_map(cost_of).min_by_key(|(cost, _)| *cost);
        best.push(cheapest.unwrap_or((u32::MAX / 2, 1)));
    }
    let (mut lengths, mut rows) = (Vec::new(), gaps.len());
    while rows > 0 {
        let length = best.get(rows).map_or(1, |(_, length)| (*length).clamp(1, rows));
        lengths.push(length);
        rows -= length;
    }
    lengths.reverse();
    lengths
}

/// The cost of pauses within ticks.
struct Inner {
    /// Up to each row, without regular pauses.
    sums: Vec<u32>,
    /// The rows that follow a regular pause.
    regular: Vec<usize>,
    gpus: usize,
    spacing: Spacing,
    is_first: bool,
}

impl Inner {
    fn of(gaps: &[Gap], gpus: usize, spacing: Spacing, is_first: bool) -> Self {
        let (mut sums, mut regular) = (vec![0], Vec::new());
        for (row, gap) in gaps.iter().enumerate() {
            let cost = match gap.within {
                within if within < spacing.min_pause() => 0,
                within if within < spacing.regular_pause() => SPLIT,
                within if within > spacing.max_pause() => SEPARATE,
                _ => {
                    regular.push(row);
                    0
                }
            };
            sums.push(sums.last().copied().unwrap_or_default() + cost);
        }
        Self { sums, regular, gpus, spacing, is_first }
    }

    /// Of the rows from `start` to `end`, with a pause before and after them.
    fn cost(&self, start: usize, end: usize, before: Nanos, after: Option<Nanos>) -> u32 {
        if start == 0 && self.is_first && end <= self.gpus {
            return 0;
        }
        let sum = |rows: usize| self.sums.get(rows).copied().unwrap_or_default();
        let from = self.regular.partition_point(|row| *row <= start);
        let regular = self.regular.get(from..).unwrap_or_default();
        let regular = regular.iter().take_while(|row| **row < end);
        let is_pause = |pause: Nanos| pause >= self.spacing.min_pause();
        let may_be_apart = end - start == self.gpus
            && self.gpus >= MIN_GPUS_SEPARATE
            && is_pause(before)
            && after.is_none_or(is_pause);
        let cost = |row: &usize| {
            let is_alone = [start + 1, end - 1].contains(row);
            if may_be_apart && is_alone { SEPARATE } else { REGULAR }
        };
        sum(end) - sum(start + 1) + regular.map(cost).sum::<u32>()
    }
}

impl Spacing {
    /// The cost of a tick that begins after this time: the shorter, the less likely.
    fn cost_of_begin(self, pause: Nanos) -> u32 {
        let expected = self.min_pause().0;
        match expected.checked_div(pause.0) {
            _ if pause.0 >= expected => 0,
            Some(times) => (1 + times.max(1).ilog2()).min(NO_PAUSE),
            None => NO_PAUSE,
        }
    }
}
