//! The replicas of a service, and whose waste it is that fewer of them save.

use phasemeter_policy::{Gpu, HOUR, Saving, Target, Window};

/// Utilization below which nothing runs, as in the contract's `activity`.
const QUIET: f64 = 0.01;

/// Difference of the lost shares of the bill up to which replicas are given back alike. An assumption.
const SIMILAR: f64 = 0.1;

/// Difference of the memory of replicas, relative to the larger, up to which both may hold the same model. An
/// assumption.
const SAME_MEMORY: f64 = 0.2;

/// The replicas of a service.
pub(crate) struct Replicas<'a> {
    pub(crate) gpus: Vec<&'a Gpu>,
    /// How many do anything, by hour.
    working: Vec<usize>,
}

/// Whether both serve the same: a service of that name, or as much memory as another replica holds.
pub(crate) fn are_replicas(a: &Gpu, b: &Gpu) -> bool {
    let is_named = a.attribute("service.name").is_some();
    let peaks = a.memory_peak().zip(b.memory_peak());
    let is_same = peaks.is_none_or(|(a, b)| (a - b).abs() <= SAME_MEMORY * f64::max(a, b));
    a.is_alike(b) && (is_named || is_same)
}

impl<'a> Replicas<'a> {
    pub(crate) fn new(gpus: Vec<&'a Gpu>, window: &Window) -> Self {
        let points = gpus.iter().map(|gpu| gpu.utilization.len()).max().unwrap_or(0);
        let per_hour = ((HOUR / window.step_seconds) as usize).max(1);
        let at = |gpu: &Gpu, point| gpu.utilization.get(point).copied().unwrap_or(f64::NAN);
        let hours = (0..points).step_by(per_hour).map(|from| {
            let hour = || from..(from + per_hour).min(points);
            let works = |gpu: &&&Gpu| hour().any(|point| at(gpu, point) >= QUIET);
            gpus.iter().filter(works).count()
        });
        let working = hours.collect();
        Self { gpus, working }
    }

    /// Share of the hours of all replicas in which one works beyond those that are kept.
    pub(crate) fn saved_by_hour(&self, kept: usize) -> f64 {
        let saved = self.working.iter().map(|working| working.saturating_sub(kept));
        saved.sum::<usize>() as f64 / (self.working.len() * self.gpus.len()).max(1) as f64
    }

    /// Books shares of the bill of all on as many as are given back: those that lose most, and those that lose
    /// about as much, each no more than its waste. The target is the category with more waste.
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
    let quiet = gpu.activity.hours_seconds / gpu.accounts.observed().seconds.max(1.0);
    f64::max(gpu.lost_idle() - quiet, 0.0)
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
