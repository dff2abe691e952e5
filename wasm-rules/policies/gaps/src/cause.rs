//! What pauses are, as far as their length, their regularity and the memory held in them show.

use phasemeter_diagnoses::{NEARLY_IDLE, share, shows_holder, time};
use phasemeter_policy::{Gpu, HOUR, Pauses, Workload};

/// Points of a column per cycle, from which both of its halves are seen. Two are the fewest that show both.
const POINTS_PER_CYCLE: f64 = 2.0;

/// Geometric standard deviation up to which lengths, or the times from one pause to the next, are alike. An assumption.
const REGULAR_DEVIATION: f64 = 1.25;

/// Pauses up to which a process saves its state or evaluates, in seconds. An assumption.
const SHORT_SECONDS: f64 = 180.0;

/// Memory in pauses, relative to that at work, from which the process did not end. An assumption: it is loaded anew in a part of
/// them.
const KEPT: f64 = 0.25;

/// Ends and starts from which a process does not get to work. An assumption.
const CRASHES: f64 = 10.0;

/// Utilization while a process that crashes starts, relative to that of work. An assumption.
const STARTING: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// Regular or short, with the memory held: it saves or evaluates.
    Checkpoints,
    /// It waits for its next task with the memory held.
    Tasks,
    /// It starts after time without readings, as after an interruption of the node.
    Starts,
    /// The job starts anew.
    Restarts,
    /// The process ends soon after each start.
    CrashLoop,
    /// Between jobs, whatever they do: nothing holds the memory.
    Queue,
    /// Its jobs end again and again, while GPUs beside it never pause.
    Odd,
    /// A server unloads its model between requests.
    Unloaded,
    /// A process holds the memory.
    Unknown,
}

/// The cause of its pauses.
pub(crate) fn cause(gpu: &Gpu, step_seconds: f64) -> Option<Cause> {
    let pauses = &gpu.activity.pauses;
    let job = gpu.workload.is_job();
    let is_known = shows_holder(gpu);
    if is_known && is_crash_loop(gpu, pauses, step_seconds) {
        return Some(Cause::CrashLoop);
    }
    let memory = memory(pauses);
    let has_ended = memory.is_some_and(|(pause, work)| pause < KEPT * work);
    let holds_little = memory.is_some_and(|(pause, work)| pause < share::MOST * work);
    if gpu.workload == Workload::Serving {
        return holds_little.then_some(Cause::Unloaded);
    }
    let held = pauses.held_share();
    let is_held = held >= share::NEARLY_ALL;
    // An instance of a job that goes on is not returned, however long it waits.
    let is_waiting = is_known && is_held && gpu.workload == Workload::Batch;
    if !is_waiting && gpu.quiet_share() > if job { NEARLY_IDLE } else { share::MOST } {
        return None;
    }
    let keeps_memory = memory.is_some() && !holds_little;
    let after_unobserved = f64::from(pauses.after_unobserved) / f64::from(pauses.count);
    if job && after_unobserved >= share::MOST && !keeps_memory {
        return Some(Cause::Starts);
    }
    if !is_known {
        return None;
    }
    let is_short = pauses.mean_seconds() <= SHORT_SECONDS;
    let is_regular = pauses.length_deviation.min(pauses.period_deviation) <= REGULAR_DEVIATION;
    // What saves or evaluates for most of its time rather waits.
    let mostly_works = pauses.quiet.seconds < share::MOST * gpu.accounts.observed().seconds;
    match gpu.workload {
        Workload::Training if !is_held || has_ended => Some(Cause::Restarts),
        Workload::Training if mostly_works && (is_regular || is_short) => Some(Cause::Checkpoints),
        Workload::Batch if mostly_works && is_held && is_regular && is_short => {
            Some(Cause::Checkpoints)
        }
        // A task that takes hours to come is none that was fetched late.
        Workload::Batch if is_held && pauses.mean_seconds() >= HOUR => Some(Cause::Unknown),
        Workload::Batch if is_held => Some(Cause::Tasks),
        Workload::Batch => Some(Cause::Queue),
        Workload::Unknown if held <= share::HARDLY_ANY => Some(Cause::Queue),
        Workload::Training | Workload::Unknown => Some(Cause::Unknown),
        Workload::Serving | Workload::Interactive => None,
    }
}

/// Mean memory in use in pauses and at work, if it was recorded.
pub(crate) fn memory(pauses: &Pauses) -> Option<(f64, f64)> {
    pauses.memory_bytes.zip(pauses.memory_at_work_bytes)
}

/// Whether a process takes memory and ends, over and over, and hardly works in that time, while it worked before or
/// after. Jobs that follow one another work as much as ever, and pauses of a notebook are its user's.
fn is_crash_loop(gpu: &Gpu, pauses: &Pauses, step_seconds: f64) -> bool {
    let count = f64::from(pauses.count);
    if count < CRASHES
        || pauses.held_share() > share::HARDLY_ANY
        || gpu.workload == Workload::Interactive
    {
        return false;
    }
    let level = STARTING * gpu.accounts.busy().level();
    let near = gpu.utilization.windows(3).filter(|points| points.iter().all(|at| *at < level));
    let (seconds, work) = near.fold((0.0, 0.0), |(seconds, work), points| {
        (seconds + step_seconds, work + points[1] * step_seconds)
    });
    let ends = gpu.activity.before_work.seconds + gpu.activity.after_work.seconds;
    let seconds = seconds - ends;
    let cycle = seconds / count;
    // Else it works as ever from one pause to the next.
    let is_between = seconds > pauses.quiet.seconds;
    // Points that are longer than a cycle are means of work and pauses.
    let is_seen = POINTS_PER_CYCLE * step_seconds <= cycle;
    is_seen
        && is_between
        && cycle <= time::LASTING
        && work <= 0.5 * gpu.accounts.observed().effective_seconds
}
