//! Pauses between work: how many, how long, how regular, and what is held in them.
//!
//! Built from the time slices of whole seconds and from readings, in constant memory. Drivers report a percent or two
//! while a process saves or waits, so a second belongs to a pause if it is idle, not only if it is without work.

use crate::lengths::Lengths;
use crate::phase::{Account, Phase};
use crate::reading::Reading;
use crate::timeline::TimeSlice;
use crate::units::{Bytes, Nanos, Timestamp, Utilization};

/// Minimum length of a pause: ten seconds.
pub const MIN_PAUSE: Nanos = Nanos::from_secs(10);

/// Pauses: idle stretches of at least [`MIN_PAUSE`] after the first second that is not idle, each directly before such a
/// second. A pause counts when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Their number and length.
    pub lengths: Lengths,
    /// The part of their time in which a process or memory held the GPU.
    pub held: Nanos,
    /// Number of those that directly follow unobserved time; work directly precedes the others.
    pub after_unobserved: u64,
    /// The time from the start of each to the start of the next.
    pub periods: Lengths,
    /// Memory in use in them, by readings.
    pub memory: MemoryInUse,
    /// Memory in use at work, by readings that are not idle.
    pub memory_at_work: MemoryInUse,
}

/// Memory in use over some readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInUse {
    /// The sum, in KiB.
    pub kibibytes: u64,
    /// Readings.
    pub readings: u64,
}

impl MemoryInUse {
    /// The mean in bytes; `None` without readings.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn mean(self) -> Option<f64> {
        (self.readings > 0).then(|| 1_024.0 * self.kibibytes as f64 / self.readings as f64)
    }

    pub(crate) const fn record(&mut self, used: Bytes) {
        self.kibibytes = self.kibibytes.saturating_add(used.get() / 1_024);
        self.readings += 1;
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            kibibytes: self.kibibytes.saturating_sub(earlier.kibibytes),
            readings: self.readings.saturating_sub(earlier.readings),
        }
    }

    const fn add(&mut self, other: Self) {
        self.kibibytes = self.kibibytes.saturating_add(other.kibibytes);
        self.readings += other.readings;
    }
}

impl Pauses {
    /// All but those of an earlier state. Their time is at most `idle`, the idle time since: one may have begun before.
    pub(crate) fn since(&self, earlier: &Self, idle: Nanos) -> Self {
        let lengths = self.lengths.since(earlier.lengths);
        let total = lengths.total.min(idle);
        Self {
            lengths: Lengths { total, ..lengths },
            held: (self.held - earlier.held).min(total),
            after_unobserved: self.after_unobserved.saturating_sub(earlier.after_unobserved),
            periods: self.periods.since(earlier.periods),
            memory: self.memory.since(earlier.memory),
            memory_at_work: self.memory_at_work.since(earlier.memory_at_work),
        }
    }
}

/// An idle stretch in progress.
#[derive(Clone, Copy, Debug)]
struct IdleStretch {
    from: Timestamp,
    time: Nanos,
    held: Nanos,
    follows_work: bool,
}

/// Memory in use in idle readings since the last one at work.
#[derive(Clone, Copy, Debug)]
struct IdleReadings {
    first: Timestamp,
    memory: MemoryInUse,
}

/// Meters pauses.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseMeter {
    totals: Pauses,
    stretch: Option<IdleStretch>,
    /// Whether the last slice was at work.
    works: bool,
    /// Whether any was.
    has_worked: bool,
    last_start: Option<Timestamp>,
    idle_readings: Option<IdleReadings>,
}

impl PauseMeter {
    /// All pauses that have ended.
    pub(crate) const fn totals(&self) -> &Pauses {
        &self.totals
    }

    /// Adds the next time slice.
    pub(crate) fn post(&mut self, slice: &TimeSlice) {
        match slice.account.phase() {
            Some(Phase::Idle) => {
                let follows_work = self.works;
                let stretch = self.stretch.get_or_insert(IdleStretch {
                    from: slice.from,
                    time: Nanos::ZERO,
                    held: Nanos::ZERO,
                    follows_work,
                });
                let time = slice.to.since(slice.from);
                stretch.time += time;
                if slice.account == Account::IdleHeld {
                    stretch.held += time;
                }
                self.works = false;
            }
            Some(_) => {
                if let Some(stretch) = self.stretch.take().filter(|_| self.has_worked) {
                    self.end(stretch);
                }
                self.works = true;
                self.has_worked = true;
            }
            None => {
                self.stretch = None;
                self.works = false;
            }
        }
    }

    /// Takes a reading with this memory in use; `idle` is the utilization below which it is idle.
    #[inline]
    pub(crate) fn record(&mut self, reading: &Reading, used: Bytes, idle: Utilization) {
        let Ok(utilization) = reading.utilization else { return };
        if utilization < idle {
            if self.totals.memory_at_work.readings > 0 {
                let none = IdleReadings { first: reading.at, memory: MemoryInUse::default() };
                self.idle_readings.get_or_insert(none).memory.record(used);
            }
            return;
        }
        let idle = self.idle_readings.take();
        if let Some(idle) = idle.filter(|idle| reading.at.since(idle.first) >= MIN_PAUSE) {
            self.totals.memory.add(idle.memory);
        }
        self.totals.memory_at_work.record(used);
    }

    fn end(&mut self, stretch: IdleStretch) {
        if stretch.time < MIN_PAUSE {
            return;
        }
        self.totals.lengths.add(stretch.time);
        self.totals.held += stretch.held;
        self.totals.after_unobserved += u64::from(!stretch.follows_work);
        if let Some(last) = self.last_start.replace(stretch.from) {
            self.totals.periods.add(stretch.from.since(last));
        }
    }
}
