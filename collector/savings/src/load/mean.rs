//! Time at each level of a load, as it was in each second and as means of several.

use super::distribution::{Distribution, LoadLevel};
use super::week::Week;
use phasemeter_meter::units::Nanos;

/// The lengths of the means that are kept, in seconds.
pub const MEAN_SECONDS: [u32; 3] = [1, 10, 60];

/// The length of the means that are also kept by hour of the week, in seconds: requests wait for some seconds at a peak,
/// not for a minute.
pub(super) const WEEK_MEAN: u64 = 10;

/// The means of all lengths of one load.
#[derive(Clone, Debug)]
pub(super) struct Means {
    means: [Mean; MEAN_SECONDS.len()],
    /// Minimum time covered, in seconds; `None` for all of it.
    keep: Option<u64>,
    /// When the current distributions began.
    began: u64,
}

/// The means of one length.
#[derive(Clone, Debug)]
struct Mean {
    seconds: u64,
    /// The mean in progress: its number since the epoch, how much of it is known, and Σ load in ppm.
    slot: u64,
    known: u64,
    sum: u64,
    current: Distribution,
    /// That of the time before, if not all of it is kept.
    earlier: Distribution,
}

impl Means {
    /// `keep`: how much time is covered at least, and at most twice; `None` for all.
    pub(super) fn new(keep: Option<Nanos>) -> Self {
        let keep = keep.map(|keep| keep.0 / Nanos::SECOND.0);
        Self { means: MEAN_SECONDS.map(Mean::new), keep, began: 0 }
    }

    /// Forgets all time.
    pub(super) fn clear(&mut self) {
        self.means = MEAN_SECONDS.map(Mean::new);
    }

    /// Adds the seconds `at`..`to` of this load in ppm. They must be in time order.
    pub(super) fn add(&mut self, load: u64, at: u64, to: u64, mut week: Option<&mut Week>) {
        for mean in &mut self.means {
            mean.add(load, at, to, week.as_deref_mut().filter(|_| mean.seconds == WEEK_MEAN));
        }
    }

    /// Forgets what need not be kept at this second.
    pub(super) fn forget_earlier(&mut self, at: u64) {
        let Some(keep) = self.keep else { return };
        if at.saturating_sub(self.began) >= keep {
            if self.began > 0 {
                self.means.iter_mut().for_each(Mean::begin_next);
            }
            self.began = at;
        }
    }

    /// The time of each load, ascending, of each length in the order of [`MEAN_SECONDS`].
    pub(super) fn levels(&self) -> [Vec<LoadLevel>; MEAN_SECONDS.len()] {
        self.means.each_ref().map(Mean::levels)
    }

    /// Bytes that it has allocated.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.means.iter().map(|mean| mean.current.allocated() + mean.earlier.allocated()).sum()
    }
}

impl Mean {
    fn new(seconds: u32) -> Self {
        let (current, earlier) = (Distribution::default(), Distribution::default());
        Self { seconds: seconds.into(), slot: 0, known: 0, sum: 0, current, earlier }
    }

    fn add(&mut self, load: u64, mut at: u64, to: u64, mut week: Option<&mut Week>) {
        let mut count = |from: u64, load: u64, means: u64, current: &mut Distribution| {
            current.add(load, u32::try_from(means).unwrap_or(u32::MAX));
            if let Some(week) = week.as_deref_mut() {
                week.add(load, from, means, WEEK_MEAN);
            }
        };
        while at < to {
            let slot = at / self.seconds;
            let whole = (to - at) / self.seconds;
            if at == slot * self.seconds && whole > 0 {
                count(at, load, whole, &mut self.current);
                at += whole * self.seconds;
                continue;
            }
            if self.slot != slot {
                (self.slot, self.known, self.sum) = (slot, 0, 0);
            }
            let end = to.min((slot + 1) * self.seconds);
            self.known += end - at;
            self.sum += load * (end - at);
            if self.known == self.seconds {
                let mean = self.sum.div_ceil(self.seconds);
                count(slot * self.seconds, mean, 1, &mut self.current);
            }
            at = end;
        }
    }

    fn begin_next(&mut self) {
        self.earlier = std::mem::take(&mut self.current);
    }

    fn levels(&self) -> Vec<LoadLevel> {
        let mut all = self.earlier.clone();
        all.merge(&self.current);
        all.levels(Nanos::from_secs(self.seconds)).collect()
    }
}
