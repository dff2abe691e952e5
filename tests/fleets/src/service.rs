//! Services: replicas that share a load which follows the hours of the day.
//!
//! Loads are in GPUs: a load of 1.5 keeps one and a half GPUs busy.

use std::f64::consts::TAU;

use crate::assumptions as assume;
use crate::draft::{Draft, Generated};
use crate::prng::Prng;
use crate::trace::{Sample, Trace, percentile};

/// Seconds between readings.
const INTERVAL: f64 = 60.0;

/// Readings of an hour.
pub(crate) const HOUR: usize = 60;

/// A service.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The load of all replicas, by reading.
    load: Vec<f64>,
    /// Replicas that carry it: the first ones.
    pub(crate) active: usize,
    /// Whether the replicas without load must stay.
    pub(crate) standby_stays: bool,
    /// Load of a replica at which latency is acceptable.
    acceptable: f64,
    /// The fewest replicas.
    fewest: usize,
    /// GPU time per request if requests are batched, relative to now.
    batched: f64,
    /// How many times as long a request may take.
    pub(crate) slowdown: f64,
}

/// The shape of a week of demand, from 0 to 1.
struct Week {
    night: f64,
    weekend: f64,
    peak_hour: f64,
    /// Whether nothing is requested outside the hours of work.
    is_office: bool,
}

impl Week {
    fn demand(&self, hour: f64) -> f64 {
        let day = (hour / 24.0) as usize % 7;
        let of_day = hour % 24.0;
        if self.is_office && (day > 4 || !(7.0..19.0).contains(&of_day)) {
            return 0.0;
        }
        let wave = 0.5 + 0.5 * ((of_day - self.peak_hour) / 24.0 * TAU).cos();
        let level = self.night + (1.0 - self.night) * wave;
        if day > 4 { level * self.weekend } else { level }
    }
}

impl Service {
    pub(crate) fn generate(draft: Draft) -> Generated<Self> {
        let Draft { offer, mut prng, mut noise } = draft;
        let single = 1 + prng.below(6);
        let replicas = if offer.gpus == 1 { single } else { offer.gpus };
        let has_standby = replicas > 1 && prng.chance(0.2);
        let active = if has_standby { replicas - 1 } else { replicas };
        let days = prng.within((1.0, 7.0)).ceil();
        let count = (days * 24.0) as usize * HOUR;
        let week = Week {
            night: prng.within((0.1, 0.9)),
            weekend: prng.within((0.3, 1.0)),
            peak_hour: prng.within((10.0, 21.0)),
            is_office: prng.chance(0.2),
        };
        let peak = prng.within((0.05, 0.95));
        let preallocates = prng.chance(0.5);
        let memory = prng.within(if preallocates { (0.8, 0.92) } else { (0.1, 0.6) });
        let memory = memory * 0.96 * offer.model.memory_gib;
        let spread = prng.within((0.02, 0.2));
        let mut load = Vec::with_capacity(count);
        let mut traces = vec![Trace::default(); replicas];
        for at in 0..count {
            let demand = peak * week.demand(at as f64 / HOUR as f64);
            let demand = demand * (1.0 + spread * noise.within((-1.0, 1.0)));
            let mut total = 0.0;
            for (replica, trace) in traces.iter_mut().enumerate() {
                let own = demand * (1.0 + 0.1 * noise.within((-1.0, 1.0)));
                let own = if replica < active { own.clamp(0.0, 1.0) } else { 0.0 };
                total += own;
                // A preallocated block is constant, other memory varies with requests.
                let vary = if preallocates { 0.0 } else { 0.05 * own };
                let memory_gib = memory * (1.0 + vary);
                trace.0.push(Sample { load: own, memory_gib, hangs: false });
            }
            load.push(total);
        }
        let job = Self::new(load, active, &mut prng);
        Generated { interval: INTERVAL, traces, job }
    }

    fn new(load: Vec<f64>, active: usize, prng: &mut Prng) -> Self {
        let less = prng.chance(assume::BATCHES_REQUESTS);
        let less = if less { prng.within(assume::LESS_TIME_PER_REQUEST) } else { 0.0 };
        Self {
            load,
            active,
            standby_stays: prng.chance(assume::STANDBY_STAYS),
            acceptable: prng.within(assume::ACCEPTABLE_LOAD),
            fewest: if prng.chance(assume::TWO_REPLICAS_STAY) { 2 } else { 1 },
            batched: 1.0 - less,
            slowdown: prng.within(assume::ACCEPTABLE_SLOWDOWN),
        }
    }

    /// Replicas that carry these readings, at this time per request.
    fn needed(&self, readings: &[f64], time: f64) -> usize {
        let load = percentile(readings.to_vec(), 0.99) * time;
        ((load / self.acceptable).ceil() as usize).max(self.fewest.min(self.active))
    }

    fn removed(&self, kept: usize) -> f64 {
        self.active.saturating_sub(kept) as f64 / self.active.max(1) as f64
    }

    /// Share saved with this number of replicas, or as many more as latency needs.
    pub(crate) fn with_replicas(&self, replicas: usize) -> f64 {
        self.removed(replicas.max(self.needed(&self.load, 1.0)))
    }

    /// Share saved if requests are batched and the replicas that are then free are given back.
    pub(crate) fn with_batched_requests(&self) -> f64 {
        self.removed(self.needed(&self.load, self.batched))
    }

    /// Share saved if one replica remains in the hours of the week in which none of them ever worked
    /// much, or as many more as latency needs.
    pub(crate) fn with_one_at_night(&self) -> f64 {
        let hours: Vec<_> = self.load.chunks(HOUR).collect();
        let is_idle = |hour: &[f64]| {
            let low = |load: &&f64| **load < 0.1 * self.active as f64;
            hour.iter().filter(low).count() as f64 >= 0.95 * hour.len() as f64
        };
        let saved = hours.iter().filter(|hour| is_idle(hour));
        let saved = saved.map(|hour| self.removed(self.needed(hour, 1.0)));
        saved.sum::<f64>() / hours.len().max(1) as f64
    }

    /// Share saved with so many replicas in each hour of the day, or as many more as latency needs. Logs start at
    /// midnight.
    pub(crate) fn with_replicas_by_hour(&self, kept: impl Fn(usize) -> usize) -> f64 {
        let hours: Vec<_> = self.load.chunks(HOUR).collect();
        let saved = hours
            .iter()
            .enumerate()
            .map(|(of_log, hour)| self.removed(kept(of_log % 24).max(self.needed(hour, 1.0))));
        saved.sum::<f64>() / hours.len().max(1) as f64
    }

    /// Share saved if the number of replicas follows the load of each hour.
    pub(crate) fn with_autoscaling(&self) -> f64 {
        let hours: Vec<_> = self.load.chunks(HOUR).collect();
        let saved = hours.iter().map(|hour| self.removed(self.needed(hour, 1.0)));
        saved.sum::<f64>() / hours.len().max(1) as f64
    }

    /// Whether a replica that takes `slower` times as long carries its load with acceptable latency.
    pub(crate) fn accepts(&self, slower: f64) -> bool {
        let load = percentile(self.load.clone(), 0.99) / self.active.max(1) as f64;
        load * slower <= self.acceptable && slower <= self.slowdown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_latency_needs_stay() {
        let night = std::iter::repeat_n(0.1, 12 * HOUR);
        let load: Vec<_> = night.chain(std::iter::repeat_n(1.5, 12 * HOUR)).collect();
        let service = Service {
            load,
            active: 4,
            standby_stays: false,
            acceptable: 0.75,
            fewest: 1,
            batched: 0.5,
            slowdown: 2.0,
        };
        let percent = |share: f64| (share * 100.0).round() as i64;
        assert_eq!([1, 3].map(|kept| percent(service.with_replicas(kept))), [50, 25]);
        assert_eq!(percent(service.with_batched_requests()), 75);
        assert_eq!(percent(service.with_one_at_night()), 38);
        assert_eq!(percent(service.with_autoscaling()), 63);
        let by_hour =
            |night, day| service.with_replicas_by_hour(|it| if it < 12 { night } else { day });
        assert_eq!([by_hour(2, 4), by_hour(2, 1)].map(percent), [25, 50]);
        assert!(service.accepts(1.9) && !service.accepts(2.1));
    }
}
