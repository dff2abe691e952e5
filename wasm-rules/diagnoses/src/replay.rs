//! What fewer GPUs would have had to carry, second by second: a replay of the load that all carried together.

use phasemeter_policy::{Gpu, Load, LoadDistribution, Window};

use crate::resolution::SHOWN;

/// Length of the means, in seconds: requests wait for some seconds at a peak, not for a minute.
const MEAN_SECONDS: u32 = 10;

/// Percent of a whole GPU.
const PERCENT: f64 = 100.0;

/// Share of the time of the GPUs that must be covered. An assumption.
const COVERED: f64 = 0.5;

/// The load of a group that has all of some GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    means: &'a LoadDistribution,
    seconds: f64,
}

impl<'a> Replay<'a> {
    /// The load of these GPUs together; of more of them, at most, if others could stand in for them, too. `None` if it
    /// was not recorded for most of their time, or if readings are too far apart to show peaks.
    pub fn of(gpus: &[&Gpu], window: &'a Window) -> Option<Self> {
        let has_all = |load: &&Load| gpus.iter().all(|gpu| load.gpus.contains(&gpu.id));
        let load = window.load.iter().find(has_all)?;
        let means = load.distributions.iter().find(|it| it.mean_seconds == MEAN_SECONDS)?;
        let seconds: f64 = means.buckets.iter().map(|bucket| bucket.seconds).sum();
        let interval = |gpu: &&Gpu| gpu.activity.interval_seconds.unwrap_or(f64::INFINITY);
        let longest = gpus.iter().map(|gpu| gpu.accounts.observed().seconds).fold(0.0, f64::max);
        let is_shown = gpus.iter().all(|gpu| interval(gpu) <= SHOWN);
        (is_shown && seconds > 0.0 && seconds >= COVERED * longest)
            .then_some(Self { means, seconds })
    }

    /// Share of the time in which the load is above that of so many GPUs, each at `target`.
    pub fn above(&self, gpus: usize, target: f64) -> f64 {
        let limit = gpus as f64 * (target * PERCENT);
        let above = self.means.buckets.iter().filter(|bucket| f64::from(bucket.percent) > limit);
        above.map(|bucket| bucket.seconds).sum::<f64>() / self.seconds
    }

    /// The fewest GPUs, at least one, with which the load is above `target` for at most this share of the time.
    pub fn needed(&self, target: f64, share: f64) -> usize {
        (self.exceeded(share) * PERCENT / (target * PERCENT)).ceil().max(1.0) as usize
    }

    /// The load, in GPUs, that is exceeded for at most this share of the time.
    pub fn exceeded(&self, share: f64) -> f64 {
        let mut above = 0.0;
        for bucket in self.means.buckets.iter().rev() {
            above += bucket.seconds;
            if above > share * self.seconds {
                return f64::from(bucket.percent) / PERCENT;
            }
        }
        0.0
    }

    /// The time that it covers, in seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{load, steady, window};

    use super::*;

    #[test]
    fn replay_counts_time_above_the_target() {
        let mut window = window(vec![steady(3_600, 0.2), steady(3_600, 0.2), steady(3_600, 0.2)]);
        let gpus = || window.gpus.iter().take(2).collect::<Vec<_>>();
        assert!(Replay::of(&gpus(), &window).is_none(), "not recorded");
        let loads = [(20, 3_000.0), (150, 570.0), (180, 30.0)];
        window.load = vec![load(&["GPU-2"], &loads), load(&["GPU-0", "GPU-1"], &loads)];
        let gpus = || window.gpus.iter().take(2).collect::<Vec<_>>();
        let replay = Replay::of(&gpus(), &window).unwrap();
        assert_eq!(replay.seconds(), 3_600.0);
        let near = |is: f64, expected: f64| (is - expected).abs() < 1e-9;
        assert!(near(replay.above(2, 0.75), 30.0 / 3_600.0), "{}", replay.above(2, 0.75));
        assert!(near(replay.above(1, 0.75), 600.0 / 3_600.0));
        let needed = [0.0, 0.01, 0.2].map(|share| replay.needed(0.75, share));
        assert_eq!(needed, [3, 2, 1]);
        assert_eq!([0.0, 0.01, 0.5].map(|share| replay.exceeded(share)), [1.8, 1.5, 0.2]);
        let all: Vec<_> = window.gpus.iter().collect();
        assert!(Replay::of(&all, &window).is_none(), "of two groups");
        window.load[1].distributions[0].buckets.truncate(1);
        window.gpus[0].activity.interval_seconds = Some(300.0);
        let gpus: Vec<_> = window.gpus.iter().take(2).collect();
        assert!(Replay::of(&gpus, &window).is_none(), "a reading every five minutes");
    }
}
