//! The load of several GPUs together.

use super::distribution::{Distribution, LoadLevel};
use super::feed::LoadFeed;
use crate::units::{Nanos, Timestamp};

/// The lengths of the means that are kept, in seconds.
pub const MEAN_SECONDS: [u32; 3] = [1, 10, 60];

/// Maximum lag of a GPU's feed behind the newest one, in seconds; later time is unknown.
const MAX_LAG: u64 = 900;

/// How long a second waits for GPUs that are found late, in seconds.
const WAIT: u64 = 30;

/// Time at each level of the load of a group of GPUs.
#[derive(Clone, Debug)]
pub struct GroupLoad {
    /// The first second.
    first: u64,
    /// The first second that is not added up yet; `None` before the first GPU.
    next: Option<u64>,
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

impl GroupLoad {
    /// A group without GPUs. `keep`: how much time is covered at least, and at most twice; `None` for all.
    #[must_use]
    pub fn new(keep: Option<Nanos>) -> Self {
        Self {
            first: 0,
            next: None,
            means: MEAN_SECONDS.map(Mean::new),
            keep: keep.map(|keep| keep.0 / Nanos::SECOND.0),
            began: 0,
        }
    }

    /// Adds a GPU. If it was there in time that is added up already, that is discarded, since the load is unknown.
    pub fn join(&mut self, feed: &LoadFeed) {
        let begins = feed.begins();
        if self.next.is_none_or(|next| next == self.first) {
            self.first = self.next.map_or(begins, |next| next.min(begins));
            self.next = Some(self.first);
        } else if self.next > Some(begins) {
            self.means = MEAN_SECONDS.map(Mean::new);
        }
    }

    /// Adds up the time that all feeds have reached: those of all GPUs that joined. At the end of the run, all time.
    pub fn add_up(&mut self, feeds: &mut [&mut LoadFeed], is_final: bool) {
        let Some(mut at) = self.next else { return };
        if at == self.first {
            at = feeds.iter().map(|feed| feed.begins()).min().unwrap_or(at).max(at);
            self.first = at;
        }
        let newest = feeds.iter().map(|feed| feed.second()).max().unwrap_or_default();
        let running = feeds.iter().filter(|feed| !feed.has_ended());
        let known = running.map(|feed| feed.second()).min().unwrap_or(newest);
        let until = if is_final {
            newest
        } else {
            known.max(newest.saturating_sub(MAX_LAG)).min(newest.saturating_sub(WAIT))
        };
        while at < until {
            let (mut load, mut to) = (Some(0), until);
            for feed in feeds.iter_mut() {
                let (ppm, changes) = feed.at(at);
                load = load.zip(ppm).map(|(load, ppm)| load + ppm);
                to = to.min(changes);
            }
            if let Some(load) = load {
                self.means.iter_mut().for_each(|mean| mean.add(load, at, to));
            }
            at = to;
        }
        self.next = Some(at);
        self.forget_earlier(at);
    }

    /// The time of each load, ascending, of each length in the order of [`MEAN_SECONDS`].
    #[must_use]
    pub fn levels(&self) -> [Vec<LoadLevel>; MEAN_SECONDS.len()] {
        self.means.each_ref().map(Mean::levels)
    }

    /// The first instant that is not added up yet.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(self.next.unwrap_or_default())
    }

    fn forget_earlier(&mut self, at: u64) {
        let Some(keep) = self.keep else { return };
        if at.saturating_sub(self.began) >= keep {
            if self.began > 0 {
                self.means.iter_mut().for_each(Mean::begin_next);
            }
            self.began = at;
        }
    }
}

impl Mean {
    fn new(seconds: u32) -> Self {
        let (current, earlier) = (Distribution::default(), Distribution::default());
        Self { seconds: seconds.into(), slot: 0, known: 0, sum: 0, current, earlier }
    }

    /// Adds the seconds `at`..`to` of this load in ppm.
    fn add(&mut self, load: u64, mut at: u64, to: u64) {
        while at < to {
            let slot = at / self.seconds;
            let whole = (to - at) / self.seconds;
            if at == slot * self.seconds && whole > 0 {
                self.current.add(load, u32::try_from(whole).unwrap_or(u32::MAX));
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
                self.current.add(self.sum.div_ceil(self.seconds), 1);
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
