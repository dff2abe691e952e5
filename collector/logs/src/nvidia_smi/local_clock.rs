//! Recognizes steps of local time in a log, as daylight saving time begins and ends, and removes them.
//!
//! A step changes no length of time. It is assumed if local time goes back, or forward, by an hour (or by
//! half an hour, as on Lord Howe Island) at a whole hour of the night, the rows go on at their interval,
//! and the next tick confirms it. A jump forward may also be a gap, so it has to be on a day and in a
//! month in which daylight saving time begins somewhere. In doubt nothing is removed: the hour is then
//! unobserved, or the rows are late.

use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};
use time::UtcDateTime;

use super::entry::Entry;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// By how much local time steps, in seconds.
const STEPS: [i64; 2] = [HOUR, HOUR / 2];

/// The last hour of the day at which clocks are set, anywhere.
const LAST_HOUR: i64 = 4;

/// The hour of the day at which they are set by half an hour.
const HALF_HOUR_STEP: i64 = 2;

/// Rows that wait for the next tick.
const MAX_PENDING: usize = 1_100;

/// A step of local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalStep {
    /// The first line after it.
    pub line: u64,
    /// When it was, in the time before it.
    pub at: Timestamp,
    /// By how much local time went forward, in seconds; negative if back.
    pub seconds: i64,
}

/// The steps of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalSteps {
    /// The last one.
    pub last: Option<LocalStep>,
    /// How many there were.
    pub total: u32,
}

/// The local clock of a log.
#[derive(Default)]
pub(super) struct LocalClock {
    steps: LocalSteps,
    /// Rows since a step that is not confirmed.
    candidate: Option<LocalStep>,
    pending: Vec<Entry>,
    /// Whether the last line was a header: what follows is another run of the logger.
    follows_header: bool,
}

/// The time before a row, and how its log is read.
#[derive(Clone, Copy)]
pub(super) struct Before {
    /// The newest time of the log.
    pub(super) newest: Timestamp,
    /// The longest usual interval between readings.
    pub(super) reach: Nanos,
    /// Seconds by which local time is ahead of the times of readings.
    pub(super) offset: i64,
    /// Rows of one tick; `None` if rows name their GPU.
    pub(super) tick: Option<usize>,
}

impl LocalClock {
    /// The steps so far.
    pub(super) const fn steps(&self) -> LocalSteps {
        self.steps
    }

    /// Records a header.
    pub(super) const fn header(&mut self) {
        self.follows_header = true;
    }

    /// Whether the last line was a header.
    pub(super) const fn follows_header(&self) -> bool {
        self.follows_header
    }

    /// Records a row that follows the one before it; returns whether it is the first after a header.
    pub(super) const fn follow(&mut self) -> bool {
        std::mem::replace(&mut self.follows_header, false)
    }

    /// Whether rows wait for the next tick.
    pub(super) const fn is_pending(&self) -> bool {
        self.candidate.is_some()
    }

    /// Takes a row of local time that is not later than the one before it, or far later. Appends the rows
    /// to continue with to `out`; returns the seconds to add to all later times, if that changes.
    pub(super) fn push(&mut self, entry: Entry, before: Before, out: &mut Vec<Entry>) -> i64 {
        let step = step(before, entry.reading.at);
        match (self.candidate, step) {
            (None, Some(seconds)) => {
                let at = before.newest;
                self.candidate = Some(LocalStep { line: entry.line, at, seconds });
                self.pending.push(entry);
            }
            (Some(found), _) if found.at == before.newest && is_after(found, &entry) => {
                let is_next_tick = match before.tick {
                    Some(rows) => self.pending.len() >= rows,
                    None => self.pending.iter().any(|row| row.gpu == entry.gpu),
                };
                self.pending.push(entry);
                if is_next_tick {
                    return self.confirm(found, out);
                }
                if self.pending.len() > MAX_PENDING {
                    self.give_up(out);
                }
            }
            (Some(_), _) => {
                self.give_up(out);
                out.push(entry);
            }
            (None, _) => out.push(entry),
        }
        0
    }

    /// Appends the rows of a step that was not confirmed.
    pub(super) fn give_up(&mut self, out: &mut Vec<Entry>) {
        self.candidate = None;
        out.append(&mut self.pending);
    }

    fn confirm(&mut self, found: LocalStep, out: &mut Vec<Entry>) -> i64 {
        self.steps = LocalSteps { last: Some(found), total: self.steps.total.saturating_add(1) };
        self.candidate = None;
        out.extend(self.pending.drain(..).filter_map(|row| shifted(row, -found.seconds)));
        -found.seconds
    }
}

/// A row at another time; `None` outside of 1970 to 2261.
pub(super) fn shifted(mut entry: Entry, seconds: i64) -> Option<Entry> {
    let nanos = i128::from(entry.reading.at.as_nanos())
        + i128::from(seconds) * i128::from(NANOS_PER_SECOND);
    entry.reading.at = Timestamp::from_nanos(u64::try_from(nanos).ok()?)?;
    Some(entry)
}

/// Whether a row follows a step in its new time.
fn is_after(found: LocalStep, entry: &Entry) -> bool {
    let half = Nanos::from_secs(found.seconds.unsigned_abs() / 2);
    let (newest, at) = (found.at, entry.reading.at);
    if found.seconds < 0 { newest.since(at) > half } else { at.since(newest) > half }
}

/// The step in seconds that local time may have taken before a row: with it, the row follows those before
/// at their interval.
fn step(before: Before, at: Timestamp) -> Option<i64> {
    let seconds = |at: Timestamp| i64::try_from(at.as_nanos() / NANOS_PER_SECOND).ok();
    let direction = if at < before.newest { -1 } else { 1 };
    STEPS.into_iter().map(|step| step * direction).find(|step| {
        let expected = Entry { reading: Reading::at(at), ..Entry::EMPTY };
        let Some(expected) = shifted(expected, -step).map(|entry| entry.reading.at) else {
            return false;
        };
        let is_next = expected >= before.newest && expected.since(before.newest) <= before.reach;
        let hours = seconds(before.newest).zip(seconds(expected)).map(|(newest, expected)| {
            ((newest + before.offset).div_euclid(HOUR), (expected + before.offset).div_euclid(HOUR))
        });
        is_next && hours.is_some_and(|(last, next)| last < next && is_plausible(next, *step))
    })
}

/// Whether clocks are set by so many seconds somewhere at this local hour since 1970.
fn is_plausible(hour: i64, step: i64) -> bool {
    let hour_of_day = hour.rem_euclid(24);
    let is_hour = match step.abs() {
        HOUR => hour_of_day <= LAST_HOUR,
        _ => hour_of_day == HALF_HOUR_STEP,
    };
    is_hour && (step < 0 || begins_on(hour.div_euclid(24)))
}

/// Whether daylight saving time begins somewhere on a local day since 1970: from Friday to Sunday, in
/// March, April, or from September to November.
fn begins_on(day: i64) -> bool {
    // 1970-01-01 was a Thursday.
    let is_weekend = matches!(day.rem_euclid(7), 1..=3);
    let month = UtcDateTime::from_unix_timestamp(day * DAY).map(|at| u8::from(at.month()));
    is_weekend && matches!(month, Ok(3 | 4 | 9..=11))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let mut parser = super::super::timestamp::TimestampParser::new(None);
        parser.read(text.as_bytes()).unwrap()
    }

    fn step_between(newest: &str, next: &str, reach: u64) -> Option<i64> {
        let reach = Nanos::from_secs(reach);
        step(Before { newest: at(newest), reach, offset: 0, tick: None }, at(next))
    }

    #[test]
    fn local_time_goes_back_at_night() {
        let back = |newest, next| step_between(newest, next, 3);
        assert_eq!(back("2026/10/25 02:59:59.5", "2026/10/25 02:00:00.5"), Some(-HOUR));
        assert_eq!(back("2026/11/01 01:59:59.5", "2026/11/01 01:00:00.0"), Some(-HOUR));
        assert_eq!(back("2026/04/04 23:59:59.5", "2026/04/04 23:00:00.0"), Some(-HOUR));
        // As on Lord Howe Island.
        assert_eq!(back("2026/04/05 01:59:59.5", "2026/04/05 01:30:00.0"), Some(-HOUR / 2));
        // In the middle of an hour, by another length, by day, or not at the interval.
        assert_eq!(back("2026/10/25 02:30:00", "2026/10/25 01:30:01"), None);
        assert_eq!(back("2026/10/25 02:59:59", "2026/10/25 02:10:00"), None);
        assert_eq!(back("2026/10/25 12:59:59", "2026/10/25 12:00:00"), None);
        assert_eq!(back("2026/10/25 02:59:59", "2026/10/25 02:00:09"), None);
    }

    #[test]
    fn local_time_goes_forward_on_days_on_which_clocks_are_set() {
        let forward = |newest, next| step_between(newest, next, 3);
        assert_eq!(forward("2026/03/29 01:59:59.5", "2026/03/29 03:00:00.5"), Some(HOUR));
        assert_eq!(forward("2026/03/08 01:59:59", "2026/03/08 03:00:00"), Some(HOUR));
        assert_eq!(forward("2026/10/04 01:59:59", "2026/10/04 02:30:00"), Some(HOUR / 2));
        // On a working day, in summer, or longer than the interval: a gap.
        assert_eq!(forward("2026/03/25 01:59:59", "2026/03/25 03:00:00"), None);
        assert_eq!(forward("2026/07/26 01:59:59", "2026/07/26 03:00:00"), None);
        assert_eq!(forward("2026/03/29 01:59:59", "2026/03/29 03:00:04"), None);
        assert_eq!(forward("2026/03/29 01:30:00", "2026/03/29 02:30:01"), None);
    }

    /// The lines and times of rows that go on, of rows of two GPUs.
    fn rows_of(texts: &[&str]) -> (Vec<(u64, Timestamp)>, i64) {
        let (mut clock, mut out, mut shift) = (LocalClock::default(), Vec::new(), 0);
        let mut newest = at(texts[0]);
        for (line, text) in (1..).zip(texts) {
            let reading = Reading::at(at(text));
            let entry = Entry { reading, line, gpu: usize::from(line % 2 == 1), ..Entry::EMPTY };
            let entry = shifted(entry, shift).unwrap();
            let reach = Nanos::from_secs(180);
            shift +=
                clock.push(entry, Before { newest, reach, offset: -shift, tick: None }, &mut out);
            newest = out.iter().map(|row| row.reading.at).max().unwrap_or(newest);
        }
        clock.give_up(&mut out);
        (out.iter().map(|row| (row.line, row.reading.at)).collect(), shift)
    }

    #[test]
    fn step_is_confirmed_by_the_next_tick() {
        let rows = [
            "2026/10/25 02:59:00",
            "2026/10/25 02:59:00",
            "2026/10/25 02:00:00",
            "2026/10/25 02:00:00",
            "2026/10/25 02:01:00",
            "2026/10/25 02:01:00",
        ];
        let (found, shift) = rows_of(&rows);
        assert_eq!(shift, HOUR);
        assert_eq!(found[2], (3, at("2026/10/25 03:00:00")));
        assert_eq!(found[5], (6, at("2026/10/25 03:01:00")));
        // A single tick may have a wrong time.
        let (found, shift) = rows_of(&rows[..4]);
        assert_eq!((found[2], shift), ((3, at("2026/10/25 02:00:00")), 0));
        let back = [&rows[..3], &["2026/10/25 03:01:00", "2026/10/25 03:01:00"]].concat();
        let (found, shift) = rows_of(&back);
        assert_eq!((found[2], shift), ((3, at("2026/10/25 02:00:00")), 0));
    }
}
