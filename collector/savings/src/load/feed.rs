//! The seconds of one GPU: those that its group has not taken yet, and the time at each level of its own load.

use std::collections::VecDeque;

use super::distribution::LoadLevel;
use super::mean::{MEAN_SECONDS, Means};
use phasemeter_meter::phase::Account;
use phasemeter_meter::timeline::TimeSlice;
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};

/// Maximum number of runs that wait: an hour of seconds that all differ. Of more, the oldest become unknown.
const MAX_RUNS: usize = 3_600;

/// Consecutive seconds of one utilization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    seconds: u32,
    /// The mean utilization of each in ppm, rounded up; `None` if it was not observed in all of it.
    ppm: Option<u32>,
}

/// Cuts the time slices of one GPU into seconds.
#[derive(Clone, Debug)]
pub struct LoadFeed {
    /// Without gaps, up to the second in progress.
    runs: VecDeque<Run>,
    /// The first second of the first run.
    first: u64,
    /// The second in progress, and what is known of it.
    second: u64,
    in_progress: Second,
    /// The first second in which the GPU may have been there.
    begins: u64,
    has_ended: bool,
    /// Its own load.
    means: Means,
}

/// What is known of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    observed: Nanos,
    /// Σ utilization × time, in ppm·ns.
    weighted: u128,
    has_gap: bool,
}

impl LoadFeed {
    /// A GPU that is there from `at` on. `keep`: how much time its own load covers at least, and at most twice; `None` for
    /// all.
    #[must_use]
    pub fn begin(at: Timestamp, keep: Option<Nanos>) -> Self {
        let second = at.whole_second();
        Self {
            runs: VecDeque::new(),
            first: second,
            second,
            in_progress: Second::default(),
            begins: second,
            has_ended: false,
            means: Means::new(keep),
        }
    }

    /// Adds a time slice. They must be in time order; between them the GPU was not there.
    pub fn post(&mut self, slice: &TimeSlice) {
        if self.runs.is_empty() && self.in_progress.is_empty() && self.second == self.begins {
            // Before its first time it was not there.
            let begins = slice.from.whole_second().max(self.begins);
            (self.begins, self.first, self.second) = (begins, begins, begins);
        }
        self.reach(slice.from.whole_second());
        let next = Timestamp::EPOCH + Nanos::from_secs(self.second + 1);
        let (head, rest) = slice.split_at(next);
        self.in_progress.add(&head);
        if rest.from < rest.to {
            let last = rest.to.whole_second();
            self.reach(rest.from.whole_second());
            let (whole, tail) = rest.split_at(rest.to.floor_second());
            let ppm = utilization(&whole);
            self.count(ppm, self.second, last);
            self.push(last - self.second, ppm);
            self.second = last;
            self.in_progress.add(&tail);
        }
    }

    /// The GPU is not there any more.
    pub fn end(&mut self) {
        if !self.in_progress.is_empty() {
            self.reach(self.second + 1);
        }
        self.has_ended = true;
    }

    /// The time at each level of its own load, ascending, of each length in the order of [`MEAN_SECONDS`]. Time in which it
    /// was not observed or not there does not count.
    #[must_use]
    pub fn levels(&self) -> [Vec<LoadLevel>; MEAN_SECONDS.len()] {
        self.means.levels()
    }

    /// The first second in which the GPU may have been there.
    #[must_use]
    pub const fn begins(&self) -> u64 {
        self.begins
    }

    /// The second in progress: all seconds before it are known.
    #[must_use]
    pub const fn second(&self) -> u64 {
        self.second
    }

    /// Whether the GPU is not there any more.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The utilization from `second` on in ppm, and the first second in which it may be another; `None` while it is
    /// unknown. What was before is forgotten. Before it was there, and after, a GPU has no load.
    pub(super) fn at(&mut self, second: u64) -> (Option<u64>, u64) {
        while let Some(run) = self.runs.front() {
            let end = self.first + u64::from(run.seconds);
            if second < end {
                break;
            }
            self.first = end;
            self.runs.pop_front();
        }
        if second < self.begins {
            return (Some(0), self.begins);
        }
        match self.runs.front() {
            Some(run) if self.first <= second => {
                (run.ppm.map(u64::from), self.first + u64::from(run.seconds))
            }
            Some(_) => (None, self.first),
            None => (self.has_ended.then_some(0), u64::MAX),
        }
    }

    /// Ends the second in progress, and the time up to `second`, in which the GPU was not there.
    fn reach(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        let known = std::mem::take(&mut self.in_progress);
        if !known.is_empty() {
            let ppm = known.ppm();
            self.count(ppm, self.second, self.second + 1);
            self.push(1, ppm);
            self.second += 1;
        }
        self.push(second - self.second, Some(0));
        self.second = second;
    }

    fn count(&mut self, ppm: Option<u32>, from: u64, to: u64) {
        if let Some(ppm) = ppm {
            self.means.add(ppm.into(), from, to, None);
        }
        self.means.forget_earlier(to);
    }

    fn push(&mut self, seconds: u64, ppm: Option<u32>) {
        let mut left = seconds;
        while left > 0 {
            let seconds = u32::try_from(left).unwrap_or(u32::MAX);
            left -= u64::from(seconds);
            match self.runs.back_mut() {
                Some(last) if last.ppm == ppm && last.seconds.checked_add(seconds).is_some() => {
                    last.seconds += seconds;
                }
                _ => self.runs.push_back(Run { seconds, ppm }),
            }
        }
        while self.runs.len() > MAX_RUNS {
            self.first += self.runs.pop_front().map_or(0, |run| u64::from(run.seconds));
        }
    }
}

#[cfg(test)]
impl LoadFeed {
    /// Bytes that it has allocated.
    pub(super) fn allocated(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.means.allocated()
    }
}

/// The mean utilization of a time slice in ppm, rounded up; `None` if it is unobserved.
fn utilization(slice: &TimeSlice) -> Option<u32> {
    let time = slice.to.since(slice.from).0;
    let ppm = slice.weighted.div_ceil(u128::from(time.max(1)));
    u32::try_from(ppm).ok().filter(|_| slice.account != Account::Unobserved)
}

impl Second {
    fn add(&mut self, slice: &TimeSlice) {
        let time = slice.to.since(slice.from);
        if slice.account == Account::Unobserved {
            self.has_gap |= time > Nanos::ZERO;
        } else {
            self.observed += time;
            self.weighted += slice.weighted;
        }
    }

    fn is_empty(&self) -> bool {
        !self.has_gap && self.observed == Nanos::ZERO
    }

    /// Its mean, if all of it was observed.
    fn ppm(&self) -> Option<u32> {
        let is_whole = !self.has_gap && self.observed >= Nanos::SECOND;
        let ppm = self.weighted.div_ceil(u128::from(NANOS_PER_SECOND));
        u32::try_from(ppm).ok().filter(|_| is_whole)
    }
}
