//! Instances whose work fits fewer of them: only then can GPUs beside busy ones be given back.

use phasemeter_diagnoses::{
    ABOVE, DIFFERENCE_SAVED, NEARLY_FULL, Replay, Unit, are_independent, confidence, needs_repair,
};
use phasemeter_policy::format::{count, decimal, duration, gib, percent};
use phasemeter_policy::{
    Effort, Evidence, Gpu, Recommendation, Remediation, Saving, Target, Vendor, Window, evidence,
    mean, same_model,
};

use crate::divide::MAX_UTILIZATION;
use crate::find::sees_bursts;

/// Tasks that run on one GPU at most: a doubling.
const TASKS: usize = 2;

/// Instances of one type of which fewer hold the work.
pub(crate) struct Pack<'a> {
    /// The GPUs with the waste: those without work, or all if tasks share GPUs.
    gpus: Vec<&'a Gpu>,
    /// Number of GPUs with work.
    busy: usize,
    /// Number of instances, and how many hold the work.
    instances: usize,
    needed: usize,
    /// GPUs of one instance.
    size: usize,
    /// Whether two tasks run on one GPU: the highest load and memory of both, in the worst pair.
    doubled: Option<(f64, f64)>,
}

impl Pack<'_> {
    /// Whether a GPU is one of those that it is about.
    pub(crate) fn holds(&self, gpu: &Gpu) -> bool {
        self.gpus.iter().any(|own| std::ptr::eq(*own, gpu))
    }

    /// What giving back the other instances saves, relative to the bill of its GPUs.
    fn returned(&self) -> f64 {
        let returned = (self.instances - self.needed) * self.size;
        (returned as f64 / self.gpus.len() as f64).min(1.0)
    }

    pub(crate) fn recommendation(&self) -> Recommendation {
        let gpus = || self.gpus.iter().copied();
        let quiet = mean(gpus(), |gpu| gpu.activity.quiet.seconds);
        let observed = mean(gpus(), |gpu| gpu.accounts.observed().seconds);
        let level = mean(gpus(), |gpu| gpu.accounts.observed().level());
        let returned = self.instances - self.needed;
        let (instances, needed) = (count(self.instances, "instance"), self.needed);
        let is_underload = mean(gpus(), Gpu::lost_underload) > mean(gpus(), Gpu::lost_idle);
        let target = if is_underload { Target::Underload } else { Target::Idle };
        let lost = |gpu: &Gpu| if is_underload { gpu.lost_underload() } else { gpu.lost_idle() };
        let each = |gpu: &Gpu| Saving::part(self.returned().min(lost(gpu)), DIFFERENCE_SAVED);
        let (code, lever, rationale, action, sure) = match self.doubled {
            None => (
                "sharing.consolidate",
                "consolidate",
                format!(
                    "{} had no work for {} of {}; by count, the {} that worked fit {needed} of {instances}, but \
                     the data has no job sizes.",
                    count(self.gpus.len(), "GPU"),
                    duration(quiet),
                    duration(observed),
                    self.busy,
                ),
                "Let the scheduler pack jobs, drain the instances that are not needed, and return them. Running jobs \
                 move at their next checkpoint or end."
                    .to_owned(),
                confidence::EVEN,
            ),
            Some((load, memory)) => (
                "sharing.double",
                Vendor::of(gpus()).choose("mps", "time_slicing", "time_slicing"),
                format!(
                    "{} run at {} on average. Two on one GPU are at {} or less for 99% of the time, in means of 10 \
                     seconds, and need {}, so {needed} of \
                     {instances} hold all, if two tasks do not slow one another.",
                    count(self.busy, "GPU"),
                    percent(level),
                    percent(load),
                    gib(memory),
                ),
                [
                    "Run two of these tasks on one GPU",
                    Vendor::of(gpus()).tool(" (MPS or time slices)", ""),
                    " for a day. If they keep their pace, move all, and return the instances that are then free.",
                ]
                .concat(),
                confidence::DOUBTFUL,
            ),
        };
        let mut values = evidence([
            ("quiet.time", quiet, "s"),
            ("utilization", level, "1"),
            ("instances", self.instances as f64, "{instance}"),
            ("instances.needed", needed as f64, "{instance}"),
        ]);
        values.extend(self.doubled.map(|pair| Evidence::new("memory.peak", pair.1, "By")));
        Recommendation {
            title: format!(
                "Pack the jobs onto {}, and return {}",
                count(needed, "instance"),
                decimal(returned as f64, 0)
            ),
            action,
            rationale,
            saving: Saving::combined(gpus().map(|gpu| (gpu, each(gpu)))),
            confidence: sure * mean(gpus(), Gpu::confidence),
            evidence: values,
            effort: Effort::Medium,
            remediation: Some(
                Remediation::new("instance.consolidate", [("instances", needed.to_string())])
                    .unless("jobs cannot move, or more of them come soon"),
            ),
            ..Recommendation::new(code, target, lever, gpus())
        }
    }
}

/// The instances whose work fits fewer of them. Those that are free as a whole are given back as they are.
pub(crate) fn packs<'a>(
    units: &[&Unit<'a>],
    window: &Window,
    is_free: impl Fn(&Gpu) -> bool,
) -> Vec<Pack<'a>> {
    let in_part = |unit: &&&Unit<'a>| {
        unit.is_returnable() && unit.gpus.len() > 1 && !unit.gpus.iter().all(|gpu| is_free(gpu))
    };
    let parts: Vec<_> = units.iter().filter(in_part).copied().collect();
    let groups = phasemeter_policy::groups(parts, |a, b| is_same_type(a, b));
    let pack = |group: &Vec<&Unit<'a>>| {
        let size = group.first()?.gpus.len();
        let all: Vec<&Gpu> = group.iter().flat_map(|unit| unit.gpus.iter().copied()).collect();
        let (free, busy): (Vec<_>, Vec<_>) = all.iter().partition(|gpu| is_free(gpu));
        let instances = group.len();
        let pack = |gpus, needed, doubled| {
            (needed < instances).then_some(Pack {
                gpus,
                busy: busy.len(),
                instances,
                needed,
                size,
                doubled,
            })
        };
        let alone = pack(free, busy.len().div_ceil(size), None);
        let alone = alone.filter(|pack| !pack.gpus.is_empty());
        let least = alone.as_ref().map_or(instances, |pack| pack.needed);
        let pair = doubled(&busy, window).filter(|_| instances > 1);
        let needed = busy.len().div_ceil(TASKS).div_ceil(size);
        let is_better = needed < least;
        pair.filter(|_| is_better).and_then(|pair| pack(all, needed, Some(pair))).or(alone)
    };
    groups.iter().filter_map(pack).collect()
}

/// The highest load and memory of two tasks on one GPU, if any two fit and do not work as one.
fn doubled(busy: &[&Gpu], window: &Window) -> Option<(f64, f64)> {
    let (mut loads, mut peaks) = (Vec::new(), Vec::new());
    for gpu in busy {
        // A preallocated pool counts as it is: what is in use inside of it is unknown.
        let fits = gpu.memory_share()? <= NEARLY_FULL / TASKS as f64;
        if !fits || gpu.is_shared() || gpu.is_bouncing() || !sees_bursts(gpu) || needs_repair(gpu) {
            return None;
        }
        loads.push(Replay::of(&[gpu], window)?.exceeded(ABOVE));
        peaks.push(gpu.memory_peak()?);
    }
    let highest = |mut values: Vec<f64>| {
        values.sort_by(|a, b| f64::total_cmp(b, a));
        values.iter().take(TASKS).sum::<f64>()
    };
    let (load, memory) = (highest(loads), highest(peaks));
    (load <= MAX_UTILIZATION && are_independent(busy)).then_some((load, memory))
}

/// Whether work of one instance runs on the other: the same known type, and as many GPUs of one model.
fn is_same_type(a: &Unit<'_>, b: &Unit<'_>) -> bool {
    let kind = |gpu: &Gpu| {
        let price = gpu.price.clone()?;
        Some((price.provider, price.region, price.instance_type?))
    };
    let (Some(first), Some(second)) = (a.gpus.first(), b.gpus.first()) else { return false };
    let alike = |gpu: &&Gpu| same_model(&gpu.model, &first.model);
    a.gpus.len() == b.gpus.len()
        && kind(first).is_some()
        && kind(first) == kind(second)
        && a.gpus.iter().chain(&b.gpus).all(alike)
}
