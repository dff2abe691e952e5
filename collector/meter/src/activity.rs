//! When a GPU works: stretches without work, and idle time by hour of the week.
//!
//! Built from the time slices of whole seconds, in constant memory. A mean over a run cannot
//! distinguish one idle night from many idle seconds, and only the former can be switched off.

use crate::pauses::{PauseMeter, Pauses};
use crate::phase::{Account, Phase};
use crate::reading::Reading;
use crate::timeline::TimeSlice;
use crate::units::{Bytes, NANOS_PER_SECOND, Nanos, Timestamp, Utilization};
use crate::wall_time::WallOffset;

/// Minimum lengths of stretches by which their time is counted: 1, 10 and 60 minutes.
pub const STRETCHES: [Nanos; 3] =
    [Nanos::from_secs(60), Nanos::from_secs(600), Nanos::from_secs(3_600)];

/// Hours of a week, the first on Monday at 00:00 local time.
pub const HOURS: usize = 7 * 24;

/// The same, and the hour of the week of the epoch: 1970-01-01 was a Thursday.
const WEEK: i64 = 7 * 24;
const FIRST_HOUR: i64 = 3 * 24;

/// Time without work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quiet {
    /// All of it.
    pub time: Nanos,
    /// The part in which a process or memory held the GPU.
    pub held: Nanos,
}

/// When a GPU worked, over a run or its recent window. A second without work has a mean utilization
/// below 1%. A stretch is a run of such seconds; unobserved time ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// All time without work.
    pub quiet: Quiet,
    /// Number of stretches.
    pub stretches: u64,
    /// The longest stretch.
    pub longest: Nanos,
    /// Time in stretches of at least each of the lengths in [`STRETCHES`].
    pub in_stretches: [Nanos; STRETCHES.len()],
    /// Time without work before the first work; all of it if the GPU never worked.
    pub before_work: Quiet,
    /// Time without work after the last work; all of it if the GPU never worked.
    pub after_work: Quiet,
    /// Pauses between work.
    pub pauses: Pauses,
}

/// One hour of the week, over all weeks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HourOfWeek {
    observed_millis: u32,
    idle_millis: u32,
}

impl HourOfWeek {
    /// Observed time.
    #[must_use]
    pub const fn observed(self) -> Nanos {
        Nanos::from_millis(self.observed_millis as u64)
    }

    /// The part of it in idle seconds.
    #[must_use]
    pub const fn idle(self) -> Nanos {
        Nanos::from_millis(self.idle_millis as u64)
    }
}

impl Quiet {
    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.held += other.held;
    }

    fn since(self, earlier: Self) -> Self {
        Self { time: less(self.time, earlier.time), held: less(self.held, earlier.held) }
    }

    /// At most as long as `other`.
    fn min(self, other: Self) -> Self {
        Self { time: self.time.min(other.time), held: self.held.min(other.held) }
    }
}

fn less(from: Nanos, by: Nanos) -> Nanos {
    Nanos(from.0.saturating_sub(by.0))
}

/// Totals that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    quiet: Quiet,
    stretches: u64,
    in_stretches: [Nanos; STRETCHES.len()],
    before_work: Quiet,
}

impl Totals {
    /// Counts a stretch of this length.
    fn count(&mut self, stretch: Nanos) {
        self.stretches += 1;
        for (sum, minimum) in self.in_stretches.iter_mut().zip(STRETCHES) {
            if stretch >= minimum {
                *sum += stretch;
            }
        }
    }
}

/// State at the end of a session. The default is the state before the first reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    totals: Totals,
    pauses: Pauses,
    /// The longest stretch of the session that ended.
    pub(crate) longest: Nanos,
}

/// Meters activity.
#[derive(Clone, Debug)]
pub(crate) struct ActivityMeter {
    /// Seconds east of UTC.
    utc_offset: i32,
    wall: WallOffset,
    hours: [HourOfWeek; HOURS],
    totals: Totals,
    pauses: PauseMeter,
    /// The longest stretch of the session in progress.
    longest: Nanos,
    /// The stretch in progress.
    stretch: Option<Nanos>,
    /// Whether there was any work.
    worked: bool,
    since_work: Quiet,
}

impl ActivityMeter {
    /// `utc_offset`: local time in seconds east of UTC; hours of the week are UTC if it is unknown.
    pub(crate) fn new(utc_offset: Option<i32>) -> Self {
        Self {
            utc_offset: utc_offset.unwrap_or_default(),
            wall: WallOffset::default(),
            hours: [HourOfWeek::default(); HOURS],
            totals: Totals::default(),
            pauses: PauseMeter::default(),
            longest: Nanos::ZERO,
            stretch: None,
            worked: false,
            since_work: Quiet::default(),
        }
    }

    /// Sets local time, for slices from now on.
    pub(crate) fn set_utc_offset(&mut self, offset: Option<i32>) {
        self.utc_offset = offset.unwrap_or_default();
    }

    /// Changes the wall time, for slices from now on.
    pub(crate) const fn step_wall_clock(&mut self, wall: WallOffset) {
        self.wall = wall;
    }

    /// Adds the next time slice.
    pub(crate) fn post(&mut self, slice: &TimeSlice) {
        self.pauses.post(slice);
        if slice.account == Account::Unobserved {
            self.end_stretch();
            return;
        }
        self.add_hours(slice);
        if slice.quiet {
            self.add_quiet(slice);
        } else {
            self.end_stretch();
            self.worked = true;
            self.since_work = Quiet::default();
        }
    }

    /// Takes a reading with this memory in use; `idle` is the utilization below which it is idle.
    #[inline]
    pub(crate) fn record_memory(&mut self, reading: &Reading, used: Bytes, idle: Utilization) {
        self.pauses.record(reading, used, idle);
    }

    /// Idle time by hour of the week, over the whole run.
    pub(crate) const fn hours(&self) -> &[HourOfWeek; HOURS] {
        &self.hours
    }

    /// Ends a session: takes a snapshot.
    pub(crate) fn end_session(&mut self) -> Snapshot {
        let longest = self.session_longest();
        self.longest = Nanos::ZERO;
        Snapshot { totals: self.current(), pauses: *self.pauses.totals(), longest }
    }

    /// Activity since a snapshot; `longest` are the longest stretches of the sessions that ended since, and `idle` is the
    /// idle time since.
    pub(crate) fn since(
        &self,
        earlier: &Snapshot,
        longest: impl Iterator<Item = Nanos>,
        idle: Nanos,
    ) -> Activity {
        let (now, then) = (self.current(), &earlier.totals);
        let longest = longest.fold(self.session_longest(), Nanos::max);
        let quiet = now.quiet.since(then.quiet);
        // A stretch in progress at the snapshot counts with its whole length.
        let within = |sum: Nanos, before: Nanos| less(sum, before).min(quiet.time);
        let lengths = now.in_stretches.into_iter().zip(then.in_stretches);
        let mut in_stretches = [Nanos::ZERO; STRETCHES.len()];
        for (found, (sum, before)) in in_stretches.iter_mut().zip(lengths) {
            *found = within(sum, before);
        }
        Activity {
            quiet,
            stretches: now.stretches.saturating_sub(then.stretches),
            longest: longest.min(quiet.time),
            in_stretches,
            before_work: now.before_work.since(then.before_work),
            after_work: self.since_work.min(quiet),
            pauses: self.pauses.totals().since(&earlier.pauses, idle),
        }
    }

    /// Totals with the stretch in progress.
    fn current(&self) -> Totals {
        let mut totals = self.totals;
        self.stretch.iter().for_each(|stretch| totals.count(*stretch));
        totals
    }

    fn session_longest(&self) -> Nanos {
        self.longest.max(self.stretch.unwrap_or_default())
    }

    fn add_quiet(&mut self, slice: &TimeSlice) {
        let time = slice.to.since(slice.from);
        let held = if slice.account == Account::IdleHeld { time } else { Nanos::ZERO };
        let quiet = Quiet { time, held };
        *self.stretch.get_or_insert_default() += time;
        self.totals.quiet.add(quiet);
        self.since_work.add(quiet);
        if !self.worked {
            self.totals.before_work.add(quiet);
        }
    }

    fn end_stretch(&mut self) {
        if let Some(stretch) = self.stretch.take() {
            self.totals.count(stretch);
            self.longest = self.longest.max(stretch);
        }
    }

    fn add_hours(&mut self, slice: &TimeSlice) {
        let is_idle = slice.account.phase() == Some(Phase::Idle);
        let mut at = slice.from;
        while at < slice.to {
            let (hour, end) = self.hour_of(at);
            let until = slice.to.min(end);
            // Differences of whole milliseconds since the epoch, so that parts of one are not lost.
            let millis = millis(until) - millis(at);
            if let Some(hour) = self.hours.get_mut(hour) {
                let millis = u32::try_from(millis).unwrap_or(u32::MAX);
                hour.observed_millis = hour.observed_millis.saturating_add(millis);
                if is_idle {
                    hour.idle_millis = hour.idle_millis.saturating_add(millis);
                }
            }
            at = until;
        }
    }

    /// The hour of the week that contains `at`, and its end.
    fn hour_of(&self, at: Timestamp) -> (usize, Timestamp) {
        let wall = self.wall.wall(at).whole_second();
        let second = wall.cast_signed() + i64::from(self.utc_offset);
        let hour = (second.div_euclid(3_600) + FIRST_HOUR).rem_euclid(WEEK);
        let left = 3_600 - second.rem_euclid(3_600);
        let end = at.floor_second() + Nanos(left.unsigned_abs() * NANOS_PER_SECOND);
        (usize::try_from(hour).unwrap_or_default(), end)
    }
}

const fn millis(at: Timestamp) -> u64 {
    at.as_nanos() / 1_000_000
}
