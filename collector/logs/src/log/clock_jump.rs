//! Rejects rows of a log whose clock is far ahead of the rows before, unless rows after them confirm it.
//!
//! A wrong timestamp would extend the bill of all GPUs, and later rows would be late. Applies before logs are merged.
//!
//! - A row far ahead is confirmed by a second row that follows it.
//! - Both are rejected if the clock goes back before there are ten.
//! - Both are rejected at the end of the log if it has other GPUs, and none gets as far.
//! - The first row of a log may also be less far ahead: it is rejected if both rows after it are earlier.

use std::collections::VecDeque;

use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp};

/// A jump is longer than this, and longer than [`JUMP`] times `stale_after`.
const MIN_JUMP: Nanos = Nanos::from_secs(3_600);
const JUMP: u64 = 100;

/// Rows far ahead that follow one another are admitted once there are so many; before, a row that is not far ahead
/// shows that they are wrong.
const CONFIRMED: usize = 10;

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
    "clock_jump: {:.1} min ahead of the rows next to it, too few of which confirm it",
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
    /// Rows far ahead that follow one another, until enough of them do.
    pending: Vec<E>,
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
        let is_regular = is_later && clock.pending.is_empty() && clock.first.is_none();
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

    /// Appends a row to `ready`, or keeps it until others confirm it. Returns the rows that are rejected by it.
    #[cold]
    pub(crate) fn resolve(
        &mut self,
        gpu: usize,
        row: E,
        ready: &mut VecDeque<E>,
    ) -> Vec<Rejection<E>> {
        if self.gpus.len() <= gpu {
            let clock = || Clock::new(self.stale_after, self.allowed_lateness);
            self.gpus.resize_with(gpu + 1, clock);
        }
        self.gpus.get_mut(gpu).map(|clock| clock.resolve(row, ready)).unwrap_or_default()
    }

    /// Ends the log, as [`finish`] does.
    pub(crate) fn finish(&mut self, ready: &mut VecDeque<E>) -> Vec<Rejection<E>> {
        finish(std::mem::take(&mut self.gpus), ready)
    }
}

/// Ends a log with these clocks. Appends rows far ahead to `ready`, in time order, if they are confirmed; returns the
/// others.
pub(crate) fn finish<E: Timed>(
    clocks: Vec<Clock<E>>,
    ready: &mut VecDeque<E>,
) -> Vec<Rejection<E>> {
    let ends: Vec<_> = clocks.iter().filter(|clock| clock.is_running).map(Clock::end).collect();
    let others = |own: usize| {
        let others = ends.iter().enumerate().filter(move |(other, _)| *other != own);
        others.map(|(_, end)| *end).max()
    };
    let (mut admitted, mut rejected) = (Vec::new(), Vec::new());
    for (own, mut clock) in clocks.into_iter().filter(|clock| clock.is_running).enumerate() {
        let Some(first) = clock.pending.first().map(Timed::at) else { continue };
        let is_alone = others(own).is_some_and(|other| first.since(other) > clock.longest_pause());
        if clock.is_confirmed() && !is_alone {
            admitted.extend(clock.pending);
        } else {
            rejected.extend(clock.reject());
        }
    }
    admitted.sort_by_key(Timed::at);
    ready.extend(admitted);
    rejected
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
            pending: Vec::new(),
            rejected: None,
        }
    }

    /// Whether the rows after the first have shown if that is ahead; until then it may be rejected.
    #[cfg(feature = "full")]
    pub(crate) const fn knows_first(&self) -> bool {
        self.first.is_none()
    }

    /// Appends a row to `ready`, or keeps it until others confirm it. Returns the rows that are rejected by it.
    pub(crate) fn resolve(&mut self, row: E, ready: &mut VecDeque<E>) -> Vec<Rejection<E>> {
        let at = row.at();
        if !self.is_running {
            self.first = Some(First { at, line: row.line(), earlier: None });
            (self.is_running, self.newest) = (true, at);
            ready.push_back(row);
            return Vec::new();
        }
        let mut rejected: Vec<_> = self.check_first(at, ready).into_iter().collect();
        if let Some(last) = self.pending.last().map(Timed::at) {
            if self.follows(last, at) {
                self.pending.push(row);
                if self.pending.len() == CONFIRMED {
                    self.admit_pending(ready);
                }
                return rejected;
            }
            if self.is_confirmed() && at > last {
                self.admit_pending(ready);
            } else {
                self.rejected = Some(last);
                rejected.extend(self.reject());
            }
        }
        if at.since(self.newest) > self.longest_pause() {
            self.pending.push(row);
        } else {
            self.rejected = None;
            self.record(at);
            ready.push_back(row);
        }
        rejected
    }

    /// Whether a row follows the last one far ahead: the second within its reach, others without a further jump.
    fn follows(&self, last: Timestamp, at: Timestamp) -> bool {
        let reach = if self.is_confirmed() { self.longest_pause() } else { self.reach(last) };
        last.since(at) <= self.allowed_lateness && at.since(last) <= reach
    }

    /// Whether a second row far ahead confirms the first.
    fn is_confirmed(&self) -> bool {
        self.pending.len() > 1
    }

    /// Appends the rows far ahead to `ready`: a pause is over. The rows after it may have another interval.
    fn admit_pending(&mut self, ready: &mut VecDeque<E>) {
        let mut rows = std::mem::take(&mut self.pending).into_iter();
        let Some(first) = rows.next() else { return };
        self.newest = first.at();
        self.rejected = None;
        ready.push_back(first);
        for (place, row) in rows.enumerate() {
            if place == 0 {
                let interval = staleness::from_interval(row.at().since(self.newest));
                self.stale_after = self.stale_after.map(|known| known.max(interval));
            }
            self.record(row.at());
            ready.push_back(row);
        }
    }

    /// The time of the last row, far ahead or not.
    fn end(&self) -> Timestamp {
        self.pending.last().map_or(self.newest, Timed::at)
    }

    /// A longer one is a jump.
    fn longest_pause(&self) -> Nanos {
        MIN_JUMP.max(self.stale_after().saturating_mul(JUMP))
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

    /// How far a row may follow a pending one to confirm it: `stale_after`.
    ///
    /// Rows after a long pause may have another interval. So it is three times the interval before the pending row if
    /// that is longer, and no other is known or the row before it was rejected.
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

    /// Takes the rows far ahead.
    fn reject(&mut self) -> Vec<Rejection<E>> {
        let newest = self.newest;
        let with_jump = |row: E| {
            let ahead = row.at().since(newest);
            (row, ClockJump { ahead })
        };
        std::mem::take(&mut self.pending).into_iter().map(with_jump).collect()
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
            } else {
                let found = clocks.resolve(0, Row(line, at), &mut ready);
                rejected.extend(found.iter().map(|(row, _)| row.0));
            }
        }
        rejected.extend(clocks.finish(&mut ready).iter().map(|(row, _)| row.0));
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
    fn rows_far_ahead_are_wrong_if_the_clock_goes_back() {
        let ten_years = 10 * 365 * 24 * HOUR;
        let far = |rows: u64| (0..rows).map(move |row| ten_years + row);
        let log = |rows| (0..3).chain(far(rows)).chain(3..6).collect::<Vec<u64>>();
        assert_eq!(lines(None, &log(2)), (vec![1, 2, 3, 6, 7, 8], vec![4, 5]));
        assert_eq!(lines(None, &log(9)), (vec![1, 2, 3, 13, 14, 15], (4..13).collect()));
        // The clock was set: what is behind it is late, which is found out elsewhere.
        assert_eq!(lines(None, &log(10)), ((1..17).collect(), vec![]));
        // Another year far ahead confirms nothing.
        let two_years = [0, 1, 2, ten_years, 2 * ten_years, 3, 4];
        assert_eq!(lines(None, &two_years), (vec![1, 2, 3, 6, 7], vec![4, 5]));
    }

    #[test]
    fn one_gpu_alone_does_not_end_a_log_far_ahead() {
        let jump = 5 * HOUR;
        // GPU and second of each row.
        let rejected = |rows: &[(usize, u64)]| {
            let mut clocks = Clocks::new(None, Nanos::from_secs(2));
            let (mut ready, mut rejected) = (VecDeque::new(), Vec::new());
            for (line, (gpu, second)) in (1..).zip(rows) {
                let row = Row(line, Timestamp::from_millis(second * 1_000).unwrap());
                rejected.extend(clocks.resolve(*gpu, row, &mut ready));
            }
            rejected.extend(clocks.finish(&mut ready));
            assert_eq!(ready.len() + rejected.len(), rows.len());
            rejected.iter().map(|(row, _)| row.0).collect::<Vec<_>>()
        };
        let before = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)];
        let with = |after: &[(usize, u64)]| rejected(&[&before, after].concat());
        assert_eq!(with(&[(0, jump), (0, jump + 1)]), [7, 8]);
        assert_eq!(with(&[(0, jump), (1, jump), (0, jump + 1), (1, jump + 1)]), [0; 0]);
        assert_eq!(with(&[(0, jump), (1, jump), (0, jump + 1)]), [8], "a single row");
        assert_eq!(with(&(0..10).map(|row| (0, jump + row)).collect::<Vec<_>>()), [0; 0]);
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
    fn rows_that_confirm_none_are_rejected_one_by_one() {
        let far_ahead: Vec<u64> = (0..50).map(|row| 10 * HOUR * row * row).collect();
        let (admitted, rejected) = lines(Some(Nanos::SECOND), &far_ahead);
        assert_eq!(admitted.len() + rejected.len(), 50);
    }
}
