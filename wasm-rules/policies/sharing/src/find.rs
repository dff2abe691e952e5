//! What others could use of one GPU: all of it, or a part.

use phasemeter_diagnoses::{
    Allocation, NEARLY_IDLE, NO_WORK, REUSED, Replay, SEES_BURSTS, SMALL_MEMORY, Unit,
    are_separate, hangs, needs_repair, share, shows_holder, time, work_together,
};
use phasemeter_policy::{
    Accounts, Gpu, HOUR, Memory, PatternKind, RecommendationKind, Saving, Target, Window, Workload,
};

use crate::Settings;
use crate::divide::{Fit, Part, divide};

/// Utilization up to which a steady task is small enough to share.
const SMALL_UTILIZATION: f64 = 0.4;

/// Attribute of GPUs that Slurm allocated.
const SLURM: &str = "slurm.job.id";

/// An action for one GPU.
pub(crate) struct Finding<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) action: Action,
    /// The waste that it ends.
    pub(crate) target: Target,
    pub(crate) kind: RecommendationKind,
    pub(crate) why: Capacity,
    /// Time for which others could use it, in seconds.
    pub(crate) free_seconds: f64,
    /// How its task uses a part of it.
    pub(crate) fit: Option<Fit>,
    pub(crate) lost: f64,
    pub(crate) saving: Saving,
    /// What a scheduler allocated it to, if anything is known to hold it.
    pub(crate) allocation: Option<Allocation>,
}

/// Why giving others the GPU saves no money by itself.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Capacity {
    /// Other GPUs of its instance work.
    Busy,
    /// Other GPUs of its instance were not recorded.
    Unrecorded,
    /// Its hours are paid for, used or not.
    Committed,
    /// No other task is known that would share it.
    Alone,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Action {
    /// Other jobs use it as a whole; `held` by a process that does nothing, of a job that holds it by `slurm`.
    Use { held: bool, when: Free, slurm: bool },
    /// Other tasks use a part of it.
    Divide { parts: usize, lever: &'static str },
}

/// When a GPU is free.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Free {
    Always,
    Before,
    After,
    /// Before its first work and after its last.
    Around,
}

/// Whether a GPU without work is held by a process; `None` if it worked, or if nothing shows what holds it.
pub(crate) fn unused(gpu: &Gpu) -> Option<bool> {
    if !shows_holder(gpu) {
        return None;
    }
    let quiet = gpu.activity.quiet;
    let long = gpu.activity.longest_seconds >= share::MOST * gpu.accounts.observed().seconds;
    let is_held =
        quiet.held_seconds > share::MOST * quiet.seconds || !gpu.holder_names().is_empty();
    (gpu.quiet_share() >= share::NEARLY_ALL && long).then_some(is_held)
}

pub(crate) fn find<'a>(
    gpu: &'a Gpu,
    unit: &Unit<'_>,
    window: &Window,
    settings: &Settings,
) -> Option<Finding<'a>> {
    let observed = gpu.accounts.observed().seconds;
    let unobserved = gpu.accounts.unobserved.seconds;
    // A service waits for requests, and anything else that bounces for input.
    let waits = gpu.is_bouncing() && gpu.workload != Workload::Serving;
    if observed < settings.min_seconds || unobserved > observed || waits || needs_repair(gpu) {
        return None;
    }
    let waits = |other: &&Gpu| other.is_alike(gpu) && hangs(other, window);
    if gpu.activity.after_work.seconds > 0.0 && unit.gpus.iter().any(waits) {
        // A rank that is gone: its job needs it again.
        return None;
    }
    let why = match unit {
        unit if unit.is_committed => Capacity::Committed,
        unit if !unit.is_whole => Capacity::Unrecorded,
        _ => Capacity::Busy,
    };
    if let Some((held, when, free_seconds)) = free(gpu, unit) {
        let slurm = gpu.attribute(SLURM).or_else(|| window.attribute(SLURM)).is_some();
        let lost = match when {
            Free::Always => gpu.lost_idle(),
            _ => f64::min(gpu.lost_idle(), free_seconds / observed),
        };
        return Some(Finding {
            gpu,
            action: Action::Use { held, when, slurm },
            target: Target::Idle,
            kind: RecommendationKind::Capacity,
            why,
            free_seconds,
            fit: None,
            lost,
            saving: Saving::part(lost, REUSED),
            allocation: Allocation::of(gpu, window).filter(|_| held),
        });
    }
    part(gpu, unit, window, settings, why)
}

/// The part of a GPU that its task does not need.
fn part<'a>(
    gpu: &'a Gpu,
    unit: &Unit<'_>,
    window: &Window,
    settings: &Settings,
    why: Capacity,
) -> Option<Finding<'a>> {
    if gpu.is_shared() {
        // A part of it is not its own to give.
        return None;
    }
    let (idle, starvation) = (gpu.lost_idle(), gpu.lost_starvation());
    let peak = gpu.memory_share()?;
    match gpu.memory_use(window.step_seconds) {
        Memory::InUse(_) => {}
        Memory::Pool(_) if idle >= share::MOST => {}
        _ => return None,
    }
    let idle_share = gpu.share(Accounts::idle);
    let patient = gpu.workload.is_job();
    let is_burst = idle_share >= if patient { NEARLY_IDLE } else { share::MOST };
    // A batch job that is never quiet may use engines that utilization does not cover.
    let is_engine = gpu.workload == Workload::Batch && gpu.quiet_share() < share::MOST;
    let level = gpu.accounts.observed().level();
    // Of a batch job, only the activity of its SMs shows that another one fits beside it.
    let active = match gpu.workload {
        Workload::Batch => gpu.sensors.sm_activity.filter(|_| gpu.accounts.busy().level() > 0.0),
        Workload::Interactive => None,
        _ => Some(level),
    };
    let is_small = gpu.is_steady()
        && active.is_some_and(|active| active <= SMALL_UTILIZATION)
        && peak <= SMALL_MEMORY;
    let has_engine = is_engine && active.is_none();
    if (!is_burst && !is_small) || has_engine || !sees_bursts(gpu) {
        return None;
    }
    if is_stage(gpu, unit) || unit.gpus.iter().any(|gpu| needs_repair(gpu)) {
        return None;
    }
    let (target, lost) = match is_burst {
        true if starvation > idle => (Target::Starvation, starvation),
        true => (Target::Idle, idle),
        false => (Target::Underload, gpu.lost_underload()),
    };
    let part = active.filter(|_| !is_burst).map_or(1.0, |active| active / level);
    let replay = Replay::of(&[gpu], window)?;
    let Part { parts, kept, fit } = divide(gpu, peak, &replay, part, is_burst)?;
    let is_alone = unit.is_returnable() && unit.gpus.len() == 1;
    (lost >= settings.min_lost).then(|| Finding {
        gpu,
        action: Action::Divide { parts, lever: fit.lever(gpu.vendor()) },
        target,
        // Of several that are alike, some are given back.
        kind: if is_alone { RecommendationKind::Saving } else { RecommendationKind::Capacity },
        why: if is_alone { Capacity::Alone } else { why },
        free_seconds: gpu.activity.quiet.seconds,
        fit: Some(fit),
        lost,
        saving: Saving::part(f64::min(lost, 1.0 - kept), REUSED),
        allocation: None,
    })
}

/// Whether it may work as one of several: MIG would cut it off from the others, which wait for it. A GPU that trains
/// and is hardly ever busy does not: waiting for others counts as work. Replicas of a service rise and fall together
/// with its requests.
fn is_stage(gpu: &Gpu, unit: &Unit<'_>) -> bool {
    let works = |other: &Gpu| other.accounts.observed().level() >= NO_WORK;
    let is_sibling = |other: &&Gpu| match gpu.workload {
        Workload::Training => {
            other.workload == gpu.workload
                && works(gpu)
                && works(other)
                && !are_separate(gpu, other)
        }
        Workload::Serving => false,
        _ => work_together(gpu, other),
    };
    unit.gpus.iter().filter(|other| !std::ptr::eq(**other, gpu)).any(is_sibling)
}

/// Whether a GPU is free for others as a whole: held or not, when, and for how many seconds. Of the time before its
/// first work and after its last, that in which no GPU of the instance works is the matter of the instance.
fn free(gpu: &Gpu, unit: &Unit<'_>) -> Option<(bool, Free, f64)> {
    if let Some(held) = unused(gpu) {
        return Some((held, Free::Always, gpu.activity.quiet.seconds));
    }
    if (unit.gpus.len() == 1 && unit.is_whole) || !shows_holder(gpu) {
        return None;
    }
    let shared = |of: fn(&Gpu) -> f64| {
        let others = unit.gpus.iter().filter(|_| unit.is_whole);
        others.map(|gpu| of(gpu)).reduce(f64::min).unwrap_or(0.0)
    };
    let (before, after) = (gpu.activity.before_work, gpu.activity.after_work);
    let first = before.seconds - shared(|gpu| gpu.activity.before_work.seconds);
    let last = after.seconds - shared(|gpu| gpu.activity.after_work.seconds);
    let (all, own) = (before.seconds + after.seconds, first + last);
    let held = (before.held_seconds + after.held_seconds) / all.max(1.0);
    let when = match own {
        own if first >= share::NEARLY_ALL * own => Free::Before,
        own if last >= share::NEARLY_ALL * own => Free::After,
        _ => Free::Around,
    };
    let least = f64::max(HOUR, share::HARDLY_ANY * gpu.accounts.observed().seconds);
    (own >= least).then_some((held > share::MOST, when, own))
}

/// Whether readings are frequent enough for the pattern, or the load is the same all day.
pub(crate) fn sees_bursts(gpu: &Gpu) -> bool {
    let is_mixed = gpu.pattern.is_none_or(|pattern| pattern.kind == PatternKind::Mixed);
    let interval = gpu.activity.interval_seconds.unwrap_or(f64::INFINITY);
    interval <= SEES_BURSTS || (!is_mixed && interval <= time::BRIEF)
}
