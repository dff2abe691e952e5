//! The replicas of a service, and what each of them saves if some are returned.

use phasemeter_diagnoses::{Replay, SAME_MEMORY, SIMILAR};
use phasemeter_policy::{Gpu, Saving, Target};

/// What advice on replicas supposes, and how a proposal says that it may not be so.
pub(crate) type Doubt = (&'static str, &'static str);

/// Of a service with a name.
pub(crate) const SURE: Doubt = ("", "");
/// Of GPUs whose instances would be returned.
pub(crate) const SAME_MODEL: Doubt =
    (", if all serve the same model", "they serve different models, ");
/// Of GPUs of one host.
pub(crate) const ON_ITS_OWN: Doubt =
    (", if each of these GPUs serves on its own", "some of these GPUs serve as one, ");

/// Share of the time in which replicas may be above their target, for the low end of the saving. An assumption.
pub(crate) const ABOVE_LOW: f64 = 0.001;

/// Target utilization for the low end of the saving, relative to the target. An assumption.
pub(crate) const TARGET_LOW: f64 = 0.75;

/// Minimum number of replicas of a service.
pub(crate) const MIN_KEPT: usize = 2;

/// Attributes that name a service.
const SERVICES: [&str; 3] = ["service.name", "k8s.deployment.name", "k8s.statefulset.name"];

/// The replicas of a service.
pub(crate) struct Replicas<'a> {
    pub(crate) gpus: Vec<&'a Gpu>,
    /// Mean number of them that do anything, without hours in which one does nothing.
    working: f64,
}

/// Whether both serve the same: a service of that name, or as much memory as another replica holds.
pub(crate) fn are_replicas(a: &Gpu, b: &Gpu) -> bool {
    let is_named = a.attribute("service.name").is_some();
    let peaks = a.memory_peak().zip(b.memory_peak());
    let is_same = peaks.is_none_or(|(a, b)| (a - b).abs() <= SAME_MEMORY * f64::max(a, b));
    a.is_alike(b) && (is_named || is_same)
}

impl<'a> Replicas<'a> {
    pub(crate) fn new(gpus: Vec<&'a Gpu>) -> Self {
        let working = gpus.iter().map(|gpu| 1.0 - quiet_hours(gpu)).sum();
        Self { gpus, working }
    }

    /// Share of the time of all replicas that is saved by keeping so many while any does anything, at least: in the hours
    /// in which one does nothing, another policy stops it.
    pub(crate) fn saved(&self, kept: usize, replay: &Replay<'_>) -> f64 {
        let kept = kept as f64 * replay.in_use().min(self.working);
        (self.working - kept).max(0.0) / self.gpus.len().max(1) as f64
    }

    /// Whether all of them name their service; else they may serve different models.
    pub(crate) fn are_named(&self) -> bool {
        let is_named = |gpu: &&Gpu| SERVICES.iter().any(|name| gpu.attribute(name).is_some());
        self.gpus.iter().all(is_named)
    }

    /// Whether hours in which one does nothing matter.
    pub(crate) fn have_quiet_hours(&self) -> bool {
        self.gpus.iter().any(|gpu| quiet_hours(gpu) >= SIMILAR)
    }

    /// The GPUs that a recommendation to return replicas names, the waste category it is about, and what each saves.
    ///
    /// It names as many GPUs as are returned: those with the most waste, and any with about as much. They share
    /// the saving, which is `shares` (low, expected, high) of the bill of all replicas. No GPU saves more than its
    /// own waste. The category is the one in which the replicas waste more.
    pub(crate) fn booked(
        &self,
        returned: usize,
        shares: [f64; 3],
    ) -> (Vec<&'a Gpu>, Target, Saving) {
        let all = |lost: fn(&Gpu) -> f64| self.gpus.iter().map(|gpu| lost(gpu)).sum::<f64>();
        let is_idle = all(lost_idle) > all(Gpu::lost_underload);
        let lost = if is_idle { lost_idle } else { Gpu::lost_underload };
        let mut losses: Vec<_> = self.gpus.iter().map(|gpu| lost(gpu)).collect();
        losses.sort_unstable_by(|a, b| b.total_cmp(a));
        let least = losses.get(returned.saturating_sub(1)).map_or(0.0, |lost| lost - SIMILAR);
        let gpus: Vec<_> = self.gpus.iter().copied().filter(|gpu| lost(gpu) >= least).collect();
        let each = self.gpus.len() as f64 / gpus.len().max(1) as f64;
        let saving = |gpu: &Gpu| {
            let most = lost_idle(gpu) + gpu.lost_underload();
            Saving::part(1.0, shares.map(|share| (share * each).min(most)))
        };
        let saving = Saving::combined(gpus.iter().map(|gpu| (*gpu, saving(gpu))));
        (gpus, if is_idle { Target::Idle } else { Target::Underload }, saving)
    }
}

/// Share of the bill that is lost to idle time, without the hours in which nothing runs.
fn lost_idle(gpu: &Gpu) -> f64 {
    f64::max(gpu.lost_idle() - quiet_hours(gpu), 0.0)
}

/// Share of the time in stretches without work of at least an hour.
fn quiet_hours(gpu: &Gpu) -> f64 {
    gpu.activity.hours_seconds / gpu.accounts.observed().seconds.max(1.0)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, with_memory};

    use super::*;

    #[test]
    fn replicas_hold_the_same_memory_or_have_a_name() {
        let holds = |gib| with_memory(steady(3_600, 0.2), gib);
        assert!(are_replicas(&holds(10.0), &holds(11.0)));
        assert!(!are_replicas(&holds(10.0), &holds(16.0)), "most likely another model");
        assert!(are_replicas(&steady(3_600, 0.2), &steady(3_600, 0.2)), "memory is unknown");
        let named = |gib| Gpu {
            attributes: vec![("service.name".to_owned(), "ranker".to_owned())],
            ..holds(gib)
        };
        assert!(are_replicas(&named(10.0), &named(16.0)));
        assert!(!are_replicas(&named(10.0), &holds(10.0)));
    }
}
