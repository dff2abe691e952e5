//! What fewer or smaller GPUs would have had to carry, second by second: a replay of the load that was recorded.
//!
//! A replay is a promise under stated targets: a utilization, and the share of the time in which the load may be above it.
//! Loads are rounded up, so that what it says is on the safe side.

use crate::quiet::QUIET;
use crate::share;
use phasemeter_policy::format::percent;
use phasemeter_policy::{Gpu, Load, LoadBucket, Window};

/// Length of the means, in seconds: requests wait for some seconds at a peak, not for a minute.
const MEAN_SECONDS: u32 = 10;

/// Percent of a whole GPU.
const PERCENT: f64 = 100.0;

/// Longest interval between readings that shows the busiest minutes of a load, in seconds. An assumption: requests that
/// wait for two minutes are lost.
const SHOWN: f64 = 120.0;

/// Time of an hour of the day from which it is known whether it is alike on several days, in seconds. An assumption: the
/// first and the last hour of a log are incomplete.
const TWO_DAYS: f64 = 1.5 * 3_600.0;

/// The load of some GPUs together.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    load: &'a Load,
    means: &'a [LoadBucket],
    seconds: f64,
}

impl<'a> Replay<'a> {
    /// The load of these GPUs together; of more of them, at most, if others could stand in for them, too. `None` if it
    /// was not recorded for most of their time, or if readings are too far apart to show peaks.
    pub fn of(gpus: &[&Gpu], window: &'a Window) -> Option<Self> {
        let has_all = |load: &&Load| gpus.iter().all(|gpu| load.gpus.contains(&gpu.id));
        // Those of single GPUs come first.
        let load = window.load.iter().find(has_all)?;
        let means = load.distributions.iter().find(|it| it.mean_seconds == MEAN_SECONDS)?;
        let seconds = total(&means.buckets);
        let interval = |gpu: &&Gpu| gpu.activity.interval_seconds.unwrap_or(f64::INFINITY);
        let longest = gpus.iter().map(|gpu| gpu.accounts.observed().seconds).fold(0.0, f64::max);
        let is_shown = gpus.iter().all(|gpu| interval(gpu) <= SHOWN);
        (is_shown && seconds > 0.0 && seconds >= share::MOST * longest).then_some(Self {
            load,
            means: &means.buckets,
            seconds,
        })
    }

    /// Share of the time in which the load is above that of so many GPUs, each at `target`.
    pub fn above(&self, gpus: f64, target: f64) -> f64 {
        let limit = gpus * target * PERCENT;
        let above = self.means.iter().filter(|bucket| f64::from(bucket.percent) > limit);
        above.map(|bucket| bucket.seconds).sum::<f64>() / self.seconds
    }

    /// The fewest GPUs, at least one, with which the load is above `target` for at most this share of the time.
    pub fn needed(&self, target: f64, share: f64) -> usize {
        needed(self.means, target, share)
    }

    /// The same by hour of the day in local time, from midnight. `None` if an hour is not known of two days.
    pub fn needed_by_hour(&self, target: f64, share: f64) -> Option<[usize; 24]> {
        let (mut all, mut known) = ([0; 24], [0.0; 24]);
        for of in &self.load.week {
            let hour = of.hour as usize % 24;
            all[hour] = needed(&of.buckets, target, share).max(all[hour]);
            known[hour] += total(&of.buckets);
        }
        known.iter().all(|seconds| *seconds >= TWO_DAYS).then_some(all)
    }

    /// The load, in GPUs, that is exceeded for at most this share of the time.
    pub fn exceeded(&self, share: f64) -> f64 {
        exceeded(self.means, share)
    }

    /// The same of one GPU, at least: loads are rounded up to whole percents. What must not be excluded without proof is
    /// compared with it.
    pub fn exceeded_at_least(&self, share: f64) -> f64 {
        (self.exceeded(share) - 1.0 / PERCENT).max(0.0)
    }

    /// Difference between the loads that are exceeded for 10% and for 90% of the time with at least the load `idle`, in single
    /// seconds: the halves of a step are shorter than a mean.
    pub fn spread(&self, idle: f64) -> f64 {
        let seconds = self.load.distributions.iter().find(|it| it.mean_seconds == 1);
        let buckets = seconds.map_or(self.means, |it| &it.buckets);
        let works = |bucket: &LoadBucket| f64::from(bucket.percent) >= idle * PERCENT;
        let busy = &buckets[buckets.iter().position(works).unwrap_or(buckets.len())..];
        exceeded(busy, share::HARDLY_ANY) - exceeded(busy, share::NEARLY_ALL)
    }

    /// Share of the time in hours of the week in which anything runs, at most.
    pub fn in_use(&self) -> f64 {
        let nothing = self.load.gpus.len() as f64 * QUIET * PERCENT;
        let week = || self.load.week.iter();
        let runs =
            |buckets: &[LoadBucket]| buckets.iter().any(|it| f64::from(it.percent) > nothing);
        let used: f64 = week().filter(|of| runs(&of.buckets)).map(|of| total(&of.buckets)).sum();
        let all: f64 = week().map(|of| total(&of.buckets)).sum();
        if all > 0.0 { used / all } else { 1.0 }
    }

    /// The time that it covers, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// A share of the time in which a load is above its target, as text.
pub fn seldom(share: f64) -> String {
    if share > 0.0 && share < 0.001 { "less than 0.1%".to_owned() } else { percent(share) }
}

fn total(buckets: &[LoadBucket]) -> f64 {
    buckets.iter().map(|bucket| bucket.seconds).sum()
}

fn needed(buckets: &[LoadBucket], target: f64, share: f64) -> usize {
    // Of a product like 0.6 × 100, only the part that counts.
    (exceeded(buckets, share) / target - 1e-9).ceil().max(1.0) as usize
}

fn exceeded(buckets: &[LoadBucket], share: f64) -> f64 {
    let (mut above, most) = (0.0, share * total(buckets));
    for bucket in buckets.iter().rev() {
        above += bucket.seconds;
        if above > most {
            return f64::from(bucket.percent) / PERCENT;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::LoadHour;
    use phasemeter_policy::testing::{load, steady, window};

    use super::*;

    #[test]
    fn replay_counts_time_above_the_target() {
        let mut window = window(vec![steady(3_600, 0.2), steady(3_600, 0.2), steady(3_600, 0.2)]);
        let gpus = || window.gpus.iter().take(2).collect::<Vec<_>>();
        assert!(Replay::of(&gpus(), &window).is_none(), "not recorded");
        assert_eq!(Replay::of(&gpus()[..1], &window).unwrap().exceeded(0.0), 0.2, "its own");
        let loads = [(20, 3_000.0), (150, 570.0), (180, 30.0)];
        window.load = vec![load(&["GPU-2"], &loads), load(&["GPU-0", "GPU-1"], &loads)];
        let gpus = || window.gpus.iter().take(2).collect::<Vec<_>>();
        let replay = Replay::of(&gpus(), &window).unwrap();
        assert_eq!(replay.seconds(), 3_600.0);
        let near = |is: f64, expected: f64| (is - expected).abs() < 1e-9;
        assert!(near(replay.above(2.0, 0.75), 30.0 / 3_600.0), "{}", replay.above(2.0, 0.75));
        assert!(near(replay.above(1.0, 0.75), 600.0 / 3_600.0));
        assert!(near(replay.above(0.5, 0.4), 1.0 - 3_000.0 / 3_600.0), "half of a GPU");
        let needed = [0.0, 0.01, 0.2].map(|share| replay.needed(0.75, share));
        assert_eq!(needed, [3, 2, 1]);
        assert_eq!([0.0, 0.01, 0.5].map(|share| replay.exceeded(share)), [1.8, 1.5, 0.2]);
        let spread = [0.2, 0.3, 2.0].map(|idle| replay.spread(idle));
        assert!(near(spread[0], 1.3) && spread[1..] == [0.0, 0.0], "{spread:?}");
        let all: Vec<_> = window.gpus.iter().collect();
        assert!(Replay::of(&all, &window).is_none(), "of two groups");
        window.load[1].distributions[0].buckets.truncate(1);
        window.gpus[0].activity.interval_seconds = Some(300.0);
        let gpus: Vec<_> = window.gpus.iter().take(2).collect();
        assert!(Replay::of(&gpus, &window).is_none(), "a reading every five minutes");
    }

    #[test]
    fn hours_of_the_day_are_those_of_the_busiest_day() {
        let mut window = window(vec![steady(3_600, 0.2), steady(3_600, 0.2)]);
        window.load = vec![load(&["GPU-0", "GPU-1"], &[(120, 7_200.0)])];
        let hour = |hour: u32| {
            // One hour is busier, and in one nothing runs.
            let percent = match hour {
                33 => 110,
                27 => 2,
                _ => 50,
            };
            LoadHour { hour, buckets: vec![LoadBucket { percent, seconds: 3_600.0 }] }
        };
        window.load[0].week = (0..48).map(hour).collect();
        let of = |window: &Window| {
            let gpus: Vec<_> = window.gpus.iter().collect();
            Replay::of(&gpus, window).unwrap().needed_by_hour(0.6, 0.01)
        };
        let hours = of(&window).unwrap();
        let in_use = |window: &Window| {
            Replay::of(&[&window.gpus[0], &window.gpus[1]], window).unwrap().in_use()
        };
        assert_eq!(in_use(&window), 47.0 / 48.0);
        assert_eq!((hours[9], hours.iter().sum::<usize>()), (2, 25));
        window.load[0].week.pop();
        assert!(of(&window).is_none(), "the last hour of one day only");
    }
}
