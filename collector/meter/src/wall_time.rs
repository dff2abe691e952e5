//! Wall time: labels for the time of a run, which never steps.
//!
//! A run counts from the wall clock at its start, in time since then. If the wall clock is set, later
//! instants are labeled by the new time; lengths do not change.

use std::collections::VecDeque;

pub use super::wall_offset::WallOffset;
use crate::units::Timestamp;

/// The maximum number of steps kept. Instants before the oldest one are labeled as just before it.
const MAX_STEPS: usize = 64;

/// Steps of the wall clock that a meter has not reached yet, in time order.
#[derive(Clone, Debug, Default)]
pub(crate) struct WallSteps(VecDeque<(Timestamp, WallOffset)>);

impl WallSteps {
    /// Adds a step. Those at one instant are joined; of more than a limited number, which a GPU without
    /// readings may not reach, so are the newest.
    pub(crate) fn push(&mut self, at: Timestamp, offset: WallOffset) {
        let is_full = self.0.len() >= MAX_STEPS;
        match self.0.back_mut() {
            Some((last, joined)) if is_full || *last == at => *joined = offset,
            _ => self.0.push_back((at, offset)),
        }
    }

    /// The first step if it is at or before `until`.
    pub(crate) fn first_until(&self, until: Timestamp) -> Option<(Timestamp, WallOffset)> {
        self.0.front().copied().filter(|(at, _)| *at <= until)
    }

    pub(crate) fn remove_first(&mut self) {
        self.0.pop_front();
    }
}

/// The wall time of all instants of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WallTime {
    before: WallOffset,
    /// Steps of the wall clock in time order: the offset from that instant on.
    steps: VecDeque<(Timestamp, WallOffset)>,
}

impl WallTime {
    /// Records a step of the wall clock. `at` must not precede the last one, which it replaces if it is at
    /// the same instant.
    pub fn step(&mut self, at: Timestamp, offset: WallOffset) {
        if self.steps.back().is_some_and(|(last, _)| *last == at) {
            self.steps.pop_back();
        }
        self.steps.push_back((at, offset));
        if self.steps.len() > MAX_STEPS
            && let Some((_, oldest)) = self.steps.pop_front()
        {
            self.before = oldest;
        }
    }

    /// Whether the wall clock has stepped.
    #[must_use]
    pub fn has_stepped(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The steps so far, in time order: the offset from that instant on.
    pub fn steps(&self) -> impl Iterator<Item = (Timestamp, WallOffset)> {
        self.steps.iter().copied()
    }

    /// The offset now.
    #[must_use]
    pub fn offset(&self) -> WallOffset {
        self.steps.back().map_or(self.before, |(_, offset)| *offset)
    }

    /// The wall time of what begins or is at `at`.
    #[must_use]
    pub fn start_label(&self, at: Timestamp) -> Timestamp {
        self.last(|step| step <= at).wall(at)
    }

    /// The wall time of what ends at `at`: before a step at the same instant.
    #[must_use]
    pub fn end_label(&self, at: Timestamp) -> Timestamp {
        self.last(|step| step < at).wall(at)
    }

    /// The wall time of the start of a sum since `start` with a point at `at`. If the clock was set back
    /// to before the start, the sum starts with that step: no point precedes its start.
    #[must_use]
    pub fn sum_start_label(&self, start: Timestamp, at: Timestamp) -> Timestamp {
        let since = self.steps.iter().filter(|(step, _)| start < *step && *step < at);
        let labels = since.map(|(step, offset)| offset.wall(*step));
        labels.fold(self.start_label(start), Timestamp::min)
    }

    /// The offset from the last step on for which this holds.
    fn last(&self, holds: impl Fn(Timestamp) -> bool) -> WallOffset {
        let last = self.steps.iter().rev().find(|(step, _)| holds(*step));
        last.map_or(self.before, |(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn offset_is_rounded_down_to_whole_seconds() {
        let forward = WallOffset::between(at(10_000), at(13_900));
        assert_eq!(forward.wall(at(10_250)), at(13_250));
        assert_eq!(forward.instant(at(13_250)), at(10_250));
        let back = WallOffset::between(at(10_000), at(7_900));
        assert_eq!(back.wall(at(10_250)), at(7_250));
        assert_eq!(back.instant(at(7_250)), at(10_250));
        assert_eq!(back.wall(Timestamp::LAST), Timestamp::LAST);
    }

    #[test]
    fn floor_is_a_multiple_in_wall_time() {
        let minute = Nanos::from_secs(60);
        let offset = WallOffset::between(at(0), at(10_000));
        assert_eq!(offset.floor(at(49_999), minute), at(0), "nothing is earlier");
        assert_eq!(offset.floor(at(50_000), minute), at(50_000));
        assert_eq!(offset.floor(at(110_000), minute), at(110_000));
        assert_eq!(WallOffset::default().floor(at(110_000), minute), at(60_000));
    }

    /// The clock is set forward by an hour at 10 h, and back by three at 20 h.
    #[test]
    fn instants_are_labeled_by_the_clock_of_their_time() {
        let mut wall = WallTime::default();
        assert!(!wall.has_stepped());
        let hour = 3_600_000;
        wall.step(at(10 * hour), WallOffset::between(at(0), at(hour)));
        wall.step(at(20 * hour), WallOffset::between(at(2 * hour), at(0)));
        assert_eq!(wall.start_label(at(10 * hour - 1)), at(10 * hour - 1));
        assert_eq!(wall.end_label(at(10 * hour)), at(10 * hour));
        assert_eq!(wall.start_label(at(10 * hour)), at(11 * hour));
        assert_eq!(wall.end_label(at(20 * hour)), at(21 * hour));
        assert_eq!(wall.start_label(at(20 * hour)), at(18 * hour));
        assert_eq!(wall.offset().wall(at(30 * hour)), at(28 * hour));
        // A sum keeps its start unless points would precede it.
        assert_eq!(wall.sum_start_label(at(5 * hour), at(21 * hour)), at(5 * hour));
        assert_eq!(wall.sum_start_label(at(19 * hour), at(21 * hour)), at(18 * hour));
        assert_eq!(wall.sum_start_label(at(19 * hour), at(22 * hour)), at(18 * hour));
    }

    #[test]
    fn steps_are_limited() {
        let mut wall = WallTime::default();
        for step in 1..=1_000 {
            wall.step(at(step * 1_000), WallOffset::between(at(0), at(step * 1_000)));
        }
        assert_eq!(wall.steps.len(), MAX_STEPS);
        assert_eq!(wall.start_label(at(999_000)), at(2 * 999_000));
        let oldest = 1_000 - u64::try_from(MAX_STEPS).unwrap();
        assert_eq!(wall.start_label(at(5_000)), at((5 + oldest) * 1_000));
    }
}
