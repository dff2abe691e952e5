//! Which action ends the hours without work of an instance, and what it saves.

use phasemeter_diagnoses::{Allocation, REUSED, SHORTENED, Unit, confidence, share, time};
use phasemeter_policy::{Gpu, Window, Workload, mean};

use crate::idle::{Idle, When};
use crate::schedule::Schedule;
use crate::{Finding, Settings};

/// How many times as late, and as early, instances are given back for the low and the high saving: the next start
/// takes up to as long as the wait. An assumption.
const LATE: f64 = 2.0;

/// Seconds by which each stop is shorter: at worst, expected, at best. An assumption.
const STARTS: [f64; 3] = [3_600.0, 600.0, 0.0];

/// What a schedule saves, relative to an instance that ends when it is idle, from which it is preferred if somebody
/// would lose what is held, or wait for the next start. An assumption.
const PREFERRED: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Returns the instance when it has no work, and starts it with the next.
    Release,
    /// Stops it in the hours in which it never works.
    Schedule,
    /// Ends what holds it without work, and returns it.
    EndSession,
    /// Removes a replica without load.
    Replica,
    /// Stops a service while it has no load.
    ScaleToZero,
    /// Prepares the job before it takes GPUs.
    Prepare,
    /// Starts the job once all of its GPUs are free.
    Gang,
    /// Gives hours that are paid for to other work.
    Fill,
    /// The same, after the process that holds the GPUs has ended.
    EndHeld,
}

/// The action for an instance, if it is without work for long enough.
pub(crate) fn choose<'a>(
    unit: &'a Unit<'a>,
    idle: Idle,
    schedule: Option<Schedule>,
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
) -> Option<Finding<'a>> {
    let (workload, when) = (unit.workload(), idle.when());
    // Released twice as late, as set, and after half of that or in shorter periods too.
    let released_after = |after: f64| {
        let [low, expected, high] = [LATE * after, after, after / LATE].map(|it| idle.saved(it));
        [low, expected, high.max(idle.all_saved(after))]
    };
    let released = released_after(settings.release_after_seconds);
    // A session that draws a desktop is never quiet, and nor is a job that something pauses.
    let stops = |it: &Schedule| {
        it.is_quiet(&idle) || workload == Workload::Interactive || workload.is_job()
    };
    let schedule = schedule.filter(|it| stops(it) && it.share >= share::MOST * idle.share());
    let scheduled = schedule.as_ref().map(|it| STARTS.map(|start| it.saved(start)));
    // The hours of a week do not save more than is lost in this window.
    let lost = mean(&unit.gpus, |gpu| gpu.lost_idle());
    let expected = scheduled.map_or(0.0, |saved| saved[1].min(lost));
    let is_longer = schedule.as_ref().is_some_and(|it| it.is_longer(&idle));
    if f64::max(expected, released[1]) < settings.min_lost {
        return None;
    }
    let is_prepared = when == When::Before && idle.is_held && workload.is_job();
    let is_standby = workload == Workload::Serving
        && when == When::Always
        && !is_longer
        && is_alike(unit, units);
    let waits = idle.is_held || matches!(workload, Workload::Interactive | Workload::Serving);
    let least = if waits { PREFERRED * released[1] } else { released[1] };
    let action = match () {
        () if is_prepared && starts_with_others(unit, units) => Action::Gang,
        () if is_prepared => Action::Prepare,
        // A service holds what it needs to answer the next request.
        () if !unit.is_returnable()
            && idle.is_held
            && workload != Workload::Serving
            && released[1] >= settings.min_lost =>
        {
            Action::EndHeld
        }
        () if !unit.is_returnable() => Action::Fill,
        () if is_standby && (idle.is_held || !idle.is_known) => Action::Replica,
        () if expected > 0.0 && (expected >= least || is_longer) => Action::Schedule,
        () if idle.is_held && workload == Workload::Serving => Action::ScaleToZero,
        () if idle.is_held => Action::EndSession,
        () => Action::Release,
    };
    let allocation = unit.gpus.iter().find_map(|gpu| Allocation::of(gpu, window));
    let action = match action {
        // It is not free: its holder releases it.
        Action::Release if allocation.is_some() => Action::EndSession,
        action => action,
    };
    // A job that goes on is not ended.
    let is_running = idle.is_held && workload.is_job() && idle.is_followed();
    if is_running && matches!(action, Action::EndSession | Action::EndHeld) {
        return None;
    }
    // Work that nothing shows may hold it.
    if !idle.is_known && matches!(action, Action::Release | Action::Fill) {
        return None;
    }
    let is_doubted = schedule.as_ref().is_some_and(|it| !it.is_quiet(&idle));
    let mut saved = match action {
        Action::Prepare => SHORTENED.map(|part| part * idle.share()),
        Action::Fill if is_doubted => REUSED.map(|part| part * confidence::EVEN * expected),
        Action::Fill | Action::EndHeld | Action::Gang => REUSED.map(|part| part * idle.share()),
        Action::Schedule => scheduled.unwrap_or_default(),
        _ => released_after(idle.ends_after(workload, settings)),
    };
    if saved[1] <= 0.0 {
        return None;
    }
    if action == Action::Schedule && is_doubted {
        // Somebody may use it.
        saved[1] *= confidence::EVEN;
    }
    // What is held in between needs its owner.
    saved[0] = saved[0].min(idle.free);
    let is_held = idle.is_held || allocation.is_some();
    if is_held || !idle.is_known || !unit.has_known_size || when == When::Before {
        // Its owner must agree, or it may have other GPUs, which work, or its host prepares the job.
        saved[0] = 0.0;
    }
    Some(Finding { unit, workload, idle, when, action, schedule, saved, allocation })
}

/// Whether GPUs of another instance begin their first work at the same time: it waited for them.
fn starts_with_others(unit: &Unit<'_>, units: &[Unit<'_>]) -> bool {
    let start = |gpu: &Gpu| gpu.activity.before_work.seconds;
    let others = units.iter().filter(|other| !std::ptr::eq(*other, unit)).flat_map(|it| &it.gpus);
    let first = unit.gpus.iter().map(|gpu| start(gpu)).fold(f64::INFINITY, f64::min);
    let mut near = others.filter(|other| (start(other) - first).abs() <= time::BRIEF);
    near.any(|other| unit.gpus.iter().any(|gpu| gpu.is_alike(other)))
}

/// Whether another replica of the same service works.
fn is_alike(unit: &Unit<'_>, units: &[Unit<'_>]) -> bool {
    let others = units.iter().flat_map(|other| &other.gpus);
    let is_busy = |other: &&&Gpu| other.quiet_share() < share::MOST;
    let alike = |other: &&Gpu| unit.gpus.iter().all(|gpu| gpu.is_alike(other));
    others.filter(is_busy).any(alike)
}
