//! The load of several GPUs together.

use super::distribution::LoadLevel;
use super::feed::LoadFeed;
use super::mean::{MEAN_SECONDS, Means, WEEK_MEAN};
use super::week::{LoadHour, Week};
use phasemeter_meter::units::{Nanos, Timestamp};

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
    means: Means,
    week: Week,
}

impl GroupLoad {
    /// A group without GPUs. `keep`: how much time is covered at least, and at most twice; `None` for all.
    #[must_use]
    pub fn new(keep: Option<Nanos>) -> Self {
        Self { first: 0, next: None, means: Means::new(keep), week: Week::default() }
    }

    /// Adds a GPU. If it was there in time that is added up already, that is discarded, since the load is unknown.
    pub fn join(&mut self, feed: &LoadFeed) {
        let begins = feed.begins();
        if self.next.is_none_or(|next| next == self.first) {
            self.first = self.next.map_or(begins, |next| next.min(begins));
            self.next = Some(self.first);
        } else if self.next > Some(begins) {
            self.means.clear();
            self.week.clear();
        }
    }

    /// Sets local time, in seconds east of the clock of the feeds, for hours of the week that are added up from now on.
    pub const fn set_local(&mut self, seconds: i64) {
        self.week.set_local(seconds);
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
                self.means.add(load, at, to, Some(&mut self.week));
            }
            at = to;
        }
        self.next = Some(at);
        self.means.forget_earlier(at);
    }

    /// The time of each load, ascending, of each length in the order of [`MEAN_SECONDS`].
    #[must_use]
    pub fn levels(&self) -> [Vec<LoadLevel>; MEAN_SECONDS.len()] {
        self.means.levels()
    }

    /// The load of the hours of the week, in means of 10 seconds, over all time.
    #[must_use]
    pub fn week(&self) -> Vec<LoadHour> {
        self.week.hours(Nanos::from_secs(WEEK_MEAN))
    }

    /// The first instant that is not added up yet.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(self.next.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_meter::phase::Account;
    use phasemeter_meter::timeline::TimeSlice;

    /// Guarantee: 256 KiB a group and 64 KiB a GPU, whatever the load.
    #[test]
    fn memory_of_groups_and_feeds_is_bounded() {
        let keep = Nanos::from_secs(4 * 3_600);
        let mut feeds = vec![LoadFeed::begin(Timestamp::EPOCH, Some(keep)); 96];
        let mut group = GroupLoad::new(Some(keep));
        feeds.iter().for_each(|feed| group.join(feed));
        for second in 0..12 * 3_600_u64 {
            let (from, to) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
            for (gpu, feed) in (0_u64..).zip(&mut feeds) {
                // All levels from none to full, of each GPU and of all together.
                let percent = if gpu * 100 < second % 9_601 {
                    (second % 9_601 - gpu * 100).min(100)
                } else {
                    0
                };
                feed.post(&TimeSlice {
                    from: Timestamp::EPOCH + from,
                    to: Timestamp::EPOCH + to,
                    account: Account::Productive,
                    weighted: u128::from(percent * 10_000 * Nanos::SECOND.0),
                    quiet: false,
                });
            }
            // The last one waits as long as it can.
            if second % 3_600 == 3_599 {
                group.add_up(&mut feeds.iter_mut().collect::<Vec<_>>(), false);
            }
        }
        let largest = feeds.iter().map(LoadFeed::allocated).max();
        assert!(largest < Some(64 << 10), "{largest:?}");
        let allocated = group.means.allocated() + group.week.allocated();
        assert!(allocated < 256 << 10, "{allocated}");
    }
}
