//! The number of replicas of services: fewer, or as many as the hour needs.
//!
//! Only replicas on instances of their own can be given back. Must not depend on
//! how a replica is made faster.

use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{count, percent};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, Remediation, Saving, Target, Window, evidence, groups,
};
use phasemeter_specs::Unit;

use crate::{Settings, serves};

/// Share of the replicas that are not needed which is given back: low, expected, high. An assumption.
const RETURNED: [f64; 3] = [0.0, 0.9, 1.0];

/// Confidence in fewer replicas. An assumption.
const SURE: f64 = 0.9;

/// Utilization that a replica has at most, if its service accepts the most.
const MAX_TARGET: f64 = 0.8;

/// Time without work from which the instances themselves are stopped.
const MAX_QUIET: f64 = 0.5;

/// Observed time that shows how the load follows the day, in seconds.
const DAY: f64 = 86_400.0;
const HOUR: f64 = 3_600.0;

/// The fewest replicas of a service whose number follows the load. An assumption.
const FEWEST: usize = 2;

/// Further saving from which the number of replicas should follow the load.
const MIN_FURTHER: f64 = 0.1;

/// The replicas of a service.
struct Replicas<'a> {
    gpus: Vec<&'a Gpu>,
    /// Their load together, in GPUs: the maximum of each hour.
    hours: Vec<f64>,
    /// The same at the 95th percentile.
    total: f64,
}

impl<'a> Replicas<'a> {
    fn new(gpus: Vec<&'a Gpu>, window: &Window) -> Self {
        let points = gpus.iter().map(|gpu| gpu.utilization.len()).max().unwrap_or(0);
        let at = |point: usize| {
            let loads = gpus.iter().filter_map(|gpu| gpu.utilization.get(point));
            loads.filter(|load| !load.is_nan()).sum::<f64>()
        };
        let loads: Vec<_> = (0..points).map(at).collect();
        let points = ((HOUR / window.step_seconds) as usize).max(1);
        let hours = loads.chunks(points).map(|hour| hour.iter().copied().fold(0.0, f64::max));
        let level = |gpu: &&Gpu| percentile(&gpu.utilization, 95).unwrap_or(1.0);
        let total = gpus.iter().map(level).sum();
        Self { hours: hours.collect(), total, gpus }
    }

    /// Replicas for a load at a target, at least `fewest`.
    fn needed(&self, load: f64, target: f64, fewest: usize) -> usize {
        ((load / target).ceil() as usize).clamp(fewest.min(self.gpus.len()), self.gpus.len())
    }

    /// Share of the replicas that is saved if their number follows the load.
    fn saved_by_hour(&self, kept: impl Fn(f64) -> usize) -> f64 {
        let needed = self.hours.iter().map(|load| kept(*load));
        1.0 - needed.sum::<usize>() as f64 / (self.hours.len() * self.gpus.len()).max(1) as f64
    }

    /// These shares of the bill, but not more than the waste.
    fn saving(&self, shares: [f64; 3]) -> Saving {
        Saving::combined(self.gpus.iter().map(|gpu| {
            let most = gpu.lost_underload() + gpu.lost_idle();
            (*gpu, Saving::part(1.0, shares.map(|share| share.min(most))))
        }))
    }

    /// The category with more waste.
    fn target(&self) -> Target {
        let lost = |part: fn(&Gpu) -> f64| self.gpus.iter().map(|gpu| part(gpu)).sum::<f64>();
        let is_idle = lost(Gpu::lost_idle) > lost(Gpu::lost_underload);
        if is_idle { Target::Idle } else { Target::Underload }
    }
}

/// Recommends fewer replicas, or as many as the hour needs, if all that serve the same are observed.
pub(crate) fn fewer(
    observed: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
) -> Vec<Recommendation> {
    let is_observed = |gpu: &&Gpu| observed.iter().any(|it| std::ptr::eq(*it, *gpu));
    let single = units.iter().filter(|unit| unit.is_returnable() && unit.gpus.len() == 1);
    let serving = single.flat_map(|unit| &unit.gpus).copied().filter(|gpu| {
        serves(gpu)
            && gpu.accounts.observed().seconds >= settings.min_size_seconds
            && gpu.lost_underload() + gpu.lost_idle() >= settings.min_lost
            && gpu.quiet_share() < MAX_QUIET
    });
    let mut found = Vec::new();
    for gpus in groups(serving, |a, b| a.is_alike(b)) {
        if !gpus.iter().all(is_observed) {
            continue;
        }
        let replicas = Replicas::new(gpus, window);
        let (now, half) = (replicas.gpus.len(), replicas.gpus.len().div_ceil(2));
        // At most twice the load on each.
        let needed = replicas.needed(replicas.total, settings.serving_target, 1);
        // One to spare.
        let kept = (needed + 1).clamp(half, now);
        let share = (now - kept) as f64 / now as f64;
        found.extend((kept < now).then(|| remove(&replicas, kept, share)));
        found.extend(follow(&replicas, share, settings));
    }
    found
}

fn remove(replicas: &Replicas<'_>, kept: usize, share: f64) -> Recommendation {
    let now = replicas.gpus.len();
    Recommendation {
        title: format!("Serve with {} instead of {now}", count(kept, "replica")),
        action: format!(
            "Scale the service to {kept} replicas and return the other instances. Watch the latency."
        ),
        rationale: format!(
            "{now} replicas on instances of their own carry {} of one GPU together, at their 95th \
             percentile: {kept} carry that at {} each.",
            percent(replicas.total),
            percent(replicas.total / kept as f64),
        ),
        saving: replicas.saving(RETURNED.map(|part| part * share)),
        confidence: SURE,
        evidence: evidence([
            ("replicas", now as f64, "{replica}"),
            ("replicas.needed", kept as f64, "{replica}"),
        ]),
        remediation: Some(Remediation::new("k8s.scale", [("replicas", kept.to_string())])),
        ..Recommendation::new(
            "sizing.replicas",
            replicas.target(),
            "replicas",
            replicas.gpus.iter().copied(),
        )
    }
}

/// Recommends a number of replicas that follows the load, if that saves more than a constant number.
fn follow(replicas: &Replicas<'_>, constant: f64, settings: &Settings) -> Option<Recommendation> {
    // No replica carries more than it does in the busiest hour.
    let busiest = replicas.hours.iter().copied().fold(0.0, f64::max) / replicas.gpus.len() as f64;
    let target = settings.serving_target.min(busiest.max(0.01));
    let kept = |load: f64| replicas.needed(load, target, FEWEST);
    let expected = replicas.saved_by_hour(kept);
    let seconds = replicas.gpus.iter().map(|gpu| gpu.accounts.observed().seconds);
    if seconds.fold(f64::INFINITY, f64::min) < DAY || expected < constant + MIN_FURTHER {
        return None;
    }
    let now = replicas.gpus.len();
    let needed = || replicas.hours.iter().map(|load| kept(*load));
    let fewest = needed().min()?;
    let hours = needed().filter(|needed| *needed == fewest);
    let share = hours.count() as f64 / replicas.hours.len().max(1) as f64;
    Some(Recommendation {
        title: "Let the number of replicas follow the load".to_owned(),
        action: format!(
            "Scale between {fewest} and {now} replicas, for example by requests in flight or at fixed hours, \
             and return the other instances. Start replicas before the load rises."
        ),
        rationale: format!(
            "{fewest} of {now} replicas carry the load for {} of the time.",
            percent(share),
        ),
        saving: replicas.saving([
            0.0,
            expected,
            replicas.saved_by_hour(|load| replicas.needed(load, MAX_TARGET, 1)),
        ]),
        confidence: SURE,
        evidence: evidence([
            ("replicas", now as f64, "{replica}"),
            ("replicas.fewest", fewest as f64, "{replica}"),
            ("replicas.fewest_share_of_time", share, "1"),
        ]),
        remediation: Some(Remediation::new(
            "k8s.autoscale",
            [("min_replicas", fewest.to_string()), ("max_replicas", now.to_string())],
        )),
        effort: Effort::Medium,
        ..Recommendation::new(
            "sizing.autoscale",
            replicas.target(),
            "autoscale",
            replicas.gpus.iter().copied(),
        )
    })
}
