//! Rejects rows whose clock is far ahead of the rows before, unless a second row confirms it.
//!
//! A single wrong timestamp would extend the bill to it, and all later rows would be late. The first
//! row of a GPU is also rejected if it is less far ahead, but both rows after it are earlier. Applies
//! to each GPU of a log, before logs are merged. Must not depend on the values of readings.

use std::collections::VecDeque;

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::entry::Entry;
use super::rejected::RejectReason;

/// A jump is longer than this, and longer than [`JUMP`] times `stale_after`.
const MIN_JUMP: Nanos = Nanos::from_secs(3_600);
const JUMP: u64 = 100;

/// The clocks of the GPUs of a log.
#[derive(Debug)]
pub(super) struct Clocks {
    gpus: Vec<Clock>,
    /// As configured; else it is estimated for each GPU.
    stale_after: Option<Nanos>,
}

/// The clock of one GPU.
#[derive(Debug, Default)]
struct Clock {
    is_running: bool,
    /// The first row, until another row shows whether it is ahead.
    first: Option<First>,
    newest: Timestamp,
    /// `stale_after`, and the intervals it is estimated from until there are enough.
    stale_after: Option<Nanos>,
    intervals: Vec<Nanos>,
    /// A row far ahead, which waits for a second one.
    pending: Option<Box<Entry>>,
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

/// The line of a rejected row, and why.
pub(super) type Rejection = (u64, RejectReason);

impl Clocks {
    /// Clocks without rows. Without `stale_after` it is estimated.
    pub(super) const fn new(stale_after: Option<Nanos>) -> Self {
        Self { gpus: Vec::new(), stale_after }
    }

    /// Whether a row follows the rows before without a jump; then it is admitted.
    #[inline]
    pub(super) fn admits(&mut self, gpu: usize, at: Timestamp) -> bool {
        let Some(clock) = self.gpus.get_mut(gpu) else { return false };
        let is_regular =
            clock.pending.is_none() && clock.first.is_none() && at.since(clock.newest) <= MIN_JUMP;
        if is_regular {
            clock.record(at);
        }
        is_regular
    }

    /// Appends a row to `ready`, or keeps it until a second one confirms it. Returns the row that is
    /// rejected by it, if any.
    #[cold]
    pub(super) fn resolve(
        &mut self,
        entry: Entry,
        ready: &mut VecDeque<Entry>,
    ) -> Option<Rejection> {
        if self.gpus.len() <= entry.gpu {
            self.gpus.resize_with(entry.gpu + 1, || Clock::new(self.stale_after));
        }
        self.gpus.get_mut(entry.gpu)?.resolve(entry, ready)
    }

    /// Rejects the rows that were not confirmed until the end.
    pub(super) fn finish(&mut self) -> Vec<Rejection> {
        let reject = |clock: &mut Clock| clock.pending.take().map(|row| clock.reject(&row));
        self.gpus.iter_mut().filter_map(reject).collect()
    }
}

impl Clock {
    fn new(stale_after: Option<Nanos>) -> Self {
        Self { stale_after, ..Self::default() }
    }

    fn resolve(&mut self, entry: Entry, ready: &mut VecDeque<Entry>) -> Option<Rejection> {
        let at = entry.reading.at;
        if !self.is_running {
            self.first = Some(First { at, line: entry.line, earlier: None });
            (self.is_running, self.newest) = (true, at);
            ready.push_back(entry);
            return None;
        }
        let mut rejection = self.check_first(at, ready);
        if let Some(pending) = self.pending.take() {
            if at >= pending.reading.at && at.since(pending.reading.at) <= self.reach(&pending) {
                self.newest = pending.reading.at;
                let interval = staleness::from_interval(at.since(self.newest));
                self.stale_after = self.stale_after.map(|known| known.max(interval));
                self.rejected = None;
                self.record(at);
                ready.extend([*pending, entry]);
                return rejection;
            }
            rejection = Some(self.reject(&pending));
            self.rejected = Some(pending.reading.at);
        }
        if at.since(self.newest) > MIN_JUMP.max(self.stale_after().saturating_mul(JUMP)) {
            self.pending = Some(Box::new(entry));
        } else {
            self.rejected = None;
            self.record(at);
            ready.push_back(entry);
        }
        rejection
    }

    /// Rejects the first row if it is ahead of both rows after it, or far ahead of the second.
    fn check_first(&mut self, at: Timestamp, ready: &mut VecDeque<Entry>) -> Option<Rejection> {
        let first = self.first.take()?;
        let ahead = first.at.since(at);
        if ahead <= MeterConfig::LOG_ALLOWED_LATENESS {
            return None;
        }
        if ahead <= MIN_JUMP && first.earlier.is_none() {
            self.first = Some(First { earlier: Some(at), ..first });
            return None;
        }
        let position = ready.iter().position(|row| row.line == first.line)?;
        ready.remove(position);
        self.newest = first.earlier.map_or(at, |earlier| earlier.max(at));
        Some((first.line, RejectReason::ClockJump { ahead }))
    }

    /// How far a row may follow a pending one to confirm it: `stale_after`, or three times the
    /// interval before the pending row if no other is known or the row before it was rejected, so
    /// that the rows after a long pause may have another interval.
    fn reach(&self, pending: &Entry) -> Nanos {
        let is_unknown = self.stale_after.is_none() && self.intervals.is_empty();
        let before = self.rejected.or(is_unknown.then_some(self.newest));
        let interval = before.map(|before| pending.reading.at.since(before)).unwrap_or_default();
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

    fn reject(&self, row: &Entry) -> Rejection {
        let ahead = row.reading.at.since(self.newest);
        (row.line, RejectReason::ClockJump { ahead })
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::reading::Reading;

    use super::*;

    const HOUR: u64 = 3_600;

    /// The admitted and rejected lines of rows of one GPU at these seconds; the first is line 1.
    fn lines(stale_after: Option<Nanos>, seconds: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (mut clocks, mut ready, mut rejected) =
            (Clocks::new(stale_after), VecDeque::new(), Vec::new());
        for (line, second) in (1..).zip(seconds) {
            let reading = Reading::at(Timestamp::from_millis(second * 1_000).unwrap());
            let entry = Entry { reading, line, ..Entry::EMPTY };
            if clocks.admits(entry.gpu, reading.at) {
                ready.push_back(entry);
            } else if let Some((line, _)) = clocks.resolve(entry, &mut ready) {
                rejected.push(line);
            }
        }
        rejected.extend(clocks.finish().iter().map(|(line, _)| *line));
        (ready.iter().map(|entry| entry.line).collect(), rejected)
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
