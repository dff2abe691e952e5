//! Rejects rows of a log whose clock is far ahead of the rows before, unless a second row confirms it.
//!
//! A single wrong timestamp would extend the bill to it, and all later rows would be late. The first
//! row is also rejected if it is less far ahead, but both rows after it are earlier. Applies before logs
//! are merged. Must not depend on formats, nor on the values of readings.

use std::collections::VecDeque;

use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp};

/// A jump is longer than this, and longer than [`JUMP`] times `stale_after`.
const MIN_JUMP: Nanos = Nanos::from_secs(3_600);
const JUMP: u64 = 100;

/// A longer jump may be a step of local time.
const MIN_STEP: Nanos = Nanos::from_secs(1_800);

/// A row, or rows of one instant.
pub(crate) trait Timed {
    /// Its time.
    fn at(&self) -> Timestamp;
    /// Its line, or another number that no other row of its time has.
    fn line(&self) -> u64;
}

/// A row is ahead of those next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "clock_jump: {:.1} min ahead of the rows next to it, none of which confirms it",
    .ahead.as_secs_f64() / 60.0
)]
pub(crate) struct ClockJump {
    ahead: Nanos,
}

/// A rejected row, and why.
pub(crate) type Rejection<E> = (E, ClockJump);

/// The clocks of the GPUs of a log.
#[derive(Debug)]
pub(crate) struct Clocks<E> {
    gpus: Vec<Clock<E>>,
    /// As configured; else it is estimated for each GPU.
    stale_after: Option<Nanos>,
    allowed_lateness: Nanos,
}

/// The clock of one GPU, or of a log.
#[derive(Debug)]
pub(crate) struct Clock<E> {
    /// By how much a row may be earlier than one before it.
    allowed_lateness: Nanos,
    is_running: bool,
    /// The first row, until another row shows whether it is ahead.
    first: Option<First>,
    newest: Timestamp,
    /// `stale_after`, and the intervals it is estimated from until there are enough.
    stale_after: Option<Nanos>,
    intervals: Vec<Nanos>,
    /// A row far ahead, which waits for a second one.
    pending: Option<Box<E>>,
    /// The row far ahead before it.
    rejected: Option<Timestamp>,
}

/// The first row of a GPU.
#[derive(Clone, Copy, Debug)]
struct First {
    at: Timestamp,
    line: u64,
    /// The second row, if it is earlier than the allowed lateness permits: one of the two is wrong.
    earlier: Option<Timestamp>,
}

impl<E: Timed> Clocks<E> {
    /// Clocks without rows. Without `stale_after` it is estimated.
    pub(crate) const fn new(stale_after: Option<Nanos>, allowed_lateness: Nanos) -> Self {
        Self { gpus: Vec::new(), stale_after, allowed_lateness }
    }

    /// Whether a row is later than the rows before, without a jump; then it is admitted.
    #[inline]
    pub(crate) fn admits(&mut self, gpu: usize, at: Timestamp) -> bool {
        let Some(clock) = self.gpus.get_mut(gpu) else { return false };
        let ahead = at.since(clock.newest);
        let is_later = ahead > Nanos::ZERO && ahead <= MIN_STEP;
        let is_regular = is_later && clock.pending.is_none() && clock.first.is_none();
        if is_regular {
            clock.record(at);
        }
        is_regular
    }

    /// The newest time of a GPU.
    pub(crate) fn newest(&self, gpu: usize) -> Option<Timestamp> {
        self.gpus.get(gpu).filter(|clock| clock.is_running).map(|clock| clock.newest)
    }

    /// How long the readings of a GPU are valid.
    pub(crate) fn stale_after(&self, gpu: usize) -> Nanos {
        self.gpus.get(gpu).map_or(Nanos::SECOND, Clock::stale_after)
    }

    /// The newest time of all GPUs.
    pub(crate) fn newest_of_all(&self) -> Option<Timestamp> {
        self.gpus.iter().filter(|clock| clock.is_running).map(|clock| clock.newest).max()
    }

    /// Appends a row to `ready`, or keeps it until a second one confirms it. Returns the row that is
    /// rejected by it, if any.
    #[cold]
    pub(crate) fn resolve(
        &mut self,
        gpu: usize,
        row: E,
        ready: &mut VecDeque<E>,
    ) -> Option<Rejection<E>> {
        if self.gpus.len() <= gpu {
            let clock = || Clock::new(self.stale_after, self.allowed_lateness);
            self.gpus.resize_with(gpu + 1, clock);
        }
        self.gpus.get_mut(gpu)?.resolve(row, ready)
    }

    /// Rejects the rows that were not confirmed until the end.
    pub(crate) fn finish(&mut self) -> Vec<Rejection<E>> {
        self.gpus.iter_mut().filter_map(Clock::finish).collect()
    }
}

impl<E: Timed> Clock<E> {
    /// A clock without rows. Without `stale_after` it is estimated.
    pub(crate) fn new(stale_after: Option<Nanos>, allowed_lateness: Nanos) -> Self {
        Self {
            allowed_lateness,
            is_running: false,
            first: None,
            newest: Timestamp::EPOCH,
            stale_after,
            intervals: Vec::new(),
            pending: None,
            rejected: None,
        }
    }

    /// Whether the rows after the first have shown if that is ahead; until then it may be rejected.
    #[cfg(feature = "mapping")]
    pub(crate) const fn knows_first(&self) -> bool {
        self.first.is_none()
    }

    /// Rejects the row that was not confirmed until the end.
    pub(crate) fn finish(&mut self) -> Option<Rejection<E>> {
        self.first = None;
        let pending = self.pending.take()?;
        Some(self.reject(*pending))
    }

    /// Appends a row to `ready`, or keeps it until a second one confirms it. Returns the row that is
    /// rejected by it, if any.
    pub(crate) fn resolve(&mut self, row: E, ready: &mut VecDeque<E>) -> Option<Rejection<E>> {
        let at = row.at();
        if !self.is_running {
            self.first = Some(First { at, line: row.line(), earlier: None });
            (self.is_running, self.newest) = (true, at);
            ready.push_back(row);
            return None;
        }
        let mut rejection = self.check_first(at, ready);
        if let Some(pending) = self.pending.take() {
            let jumped_to = pending.at();
            if at >= jumped_to && at.since(jumped_to) <= self.reach(jumped_to) {
                self.newest = jumped_to;
                let interval = staleness::from_interval(at.since(self.newest));
                self.stale_after = self.stale_after.map(|known| known.max(interval));
                self.rejected = None;
                self.record(at);
                ready.extend([*pending, row]);
                return rejection;
            }
            rejection = Some(self.reject(*pending));
            self.rejected = Some(jumped_to);
        }
        if at.since(self.newest) > MIN_JUMP.max(self.stale_after().saturating_mul(JUMP)) {
            self.pending = Some(Box::new(row));
        } else {
            self.rejected = None;
            self.record(at);
            ready.push_back(row);
        }
        rejection
    }

    /// Rejects the first row if it is ahead of both rows after it, or far ahead of the second.
    fn check_first(&mut self, at: Timestamp, ready: &mut VecDeque<E>) -> Option<Rejection<E>> {
        let first = self.first.take()?;
        let ahead = first.at.since(at);
        if ahead <= self.allowed_lateness {
            return None;
        }
        if ahead <= MIN_JUMP && first.earlier.is_none() {
            self.first = Some(First { earlier: Some(at), ..first });
            return None;
        }
        let position =
            ready.iter().position(|row| (row.at(), row.line()) == (first.at, first.line))?;
        let row = ready.remove(position)?;
        self.newest = first.earlier.map_or(at, |earlier| earlier.max(at));
        Some((row, ClockJump { ahead }))
    }

    /// How far a row may follow a pending one to confirm it: `stale_after`, or three times the
    /// interval before the pending row if no other is known or the row before it was rejected, so
    /// that the rows after a long pause may have another interval.
    fn reach(&self, pending: Timestamp) -> Nanos {
        let is_unknown = self.stale_after.is_none() && self.intervals.is_empty();
        let before = self.rejected.or(is_unknown.then_some(self.newest));
        let interval = before.map(|before| pending.since(before)).unwrap_or_default();
        staleness::from_interval(interval).max(self.stale_after())
    }

    #[inline]
    fn record(&mut self, at: Timestamp) {
        let interval = at.since(self.newest);
        if self.stale_after.is_none() && interval > Nanos::ZERO {
            self.sample(interval);
        }
        self.newest = self.newest.max(at);
    }

    fn sample(&mut self, interval: Nanos) {
        self.intervals.push(interval);
        if self.intervals.len() == staleness::SAMPLED_INTERVALS {
            self.stale_after = Some(staleness::from_intervals(std::mem::take(&mut self.intervals)));
        }
    }

    fn stale_after(&self) -> Nanos {
        self.stale_after.unwrap_or_else(|| staleness::from_intervals(self.intervals.clone()))
    }

    fn reject(&self, row: E) -> Rejection<E> {
        let ahead = row.at().since(self.newest);
        (row, ClockJump { ahead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    /// A row: its line and its time.
    struct Row(u64, Timestamp);

    impl Timed for Row {
        fn at(&self) -> Timestamp {
            self.1
        }

        fn line(&self) -> u64 {
            self.0
        }
    }

    /// The admitted and rejected lines of rows of one GPU at these seconds; the first is line 1.
    fn lines(stale_after: Option<Nanos>, seconds: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let mut clocks = Clocks::new(stale_after, Nanos::from_secs(2));
        let (mut ready, mut rejected) = (VecDeque::new(), Vec::new());
        for (line, second) in (1..).zip(seconds) {
            let at = Timestamp::from_millis(second * 1_000).unwrap();
            if clocks.admits(0, at) {
                ready.push_back(Row(line, at));
            } else if let Some((row, _)) = clocks.resolve(0, Row(line, at), &mut ready) {
                rejected.push(row.0);
            }
        }
        rejected.extend(clocks.finish().iter().map(|(row, _)| row.0));
        (ready.iter().map(|row| row.0).collect(), rejected)
    }

    #[test]
    fn single_row_far_ahead_is_rejected() {
        let ten_years = 10 * 365 * 24 * HOUR;
        assert_eq!(lines(None, &[0, 1, 2, ten_years, 3, 4]), (vec![1, 2, 3, 5, 6], vec![4]));
        assert_eq!(lines(None, &[0, 1, ten_years]), (vec![1, 2], vec![3]));
        assert_eq!(lines(None, &[ten_years, 1, 2]), (vec![2, 3], vec![1]));
        assert_eq!(lines(None, &[1, ten_years, 2, 3]), (vec![1, 3, 4], vec![2]));
    }

    #[test]
    fn first_row_ahead_of_the_next_two_is_rejected() {
        assert_eq!(lines(None, &[3_000, 1, 2, 3, 4]), (vec![2, 3, 4, 5], vec![1]));
        assert_eq!(lines(None, &[HOUR + 1, 1, 2, 3]), (vec![2, 3, 4], vec![1]));
        assert_eq!(lines(None, &[HOUR + 2, 1, 2, 3]), (vec![2, 3, 4], vec![1]));
        // If only the second is earlier, that one is wrong: it is late.
        assert_eq!(lines(None, &[3_000, 1, 3_002, 3_003]), (vec![1, 2, 3, 4], vec![]));
        // Late within the allowed lateness.
        assert_eq!(lines(None, &[3, 1, 2, 4]), (vec![1, 2, 3, 4], vec![]));
    }

    #[test]
    fn second_row_within_stale_after_confirms_jump() {
        let jump = 5 * HOUR;
        assert_eq!(lines(None, &[0, 1, 2, jump, jump + 3]).1, Vec::<u64>::new());
        assert_eq!(lines(None, &[0, 1, 2, jump, jump + 4, 3]).1, [4, 5]);
        // A pause of an hour is not a jump.
        assert_eq!(lines(None, &[0, 1, 2, HOUR + 2]).1, Vec::<u64>::new());
        assert_eq!(lines(None, &[0, 1, 2, HOUR + 3]).1, [4]);
        // Nor is one of 100 × `stale_after`.
        let stale_after = Some(Nanos::from_secs(60));
        assert_eq!(lines(stale_after, &[0, 6_000]).1, Vec::<u64>::new());
        assert_eq!(lines(stale_after, &[0, 6_001]).1, [2]);
    }

    #[test]
    fn long_intervals_are_not_jumps() {
        let every_two_hours: Vec<u64> = (0..300).map(|row| row * 2 * HOUR).collect();
        assert_eq!(lines(None, &every_two_hours).1, Vec::<u64>::new());
        // Of rows at another interval after a pause, only the first is lost.
        let slower = (0..50).map(|row| 9 * HOUR + row * 2 * HOUR);
        let changed: Vec<u64> = (0..300).chain(slower).collect();
        assert_eq!(lines(None, &changed).1, [301]);
    }

    #[test]
    fn one_row_per_gpu_is_pending_at_most() {
        let far_ahead: Vec<u64> = (0..50).map(|row| 10 * HOUR * row * row).collect();
        let (admitted, rejected) = lines(Some(Nanos::SECOND), &far_ahead);
        assert_eq!(admitted.len() + rejected.len(), 50);
    }
}
