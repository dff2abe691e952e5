//! What pauses are, as far as their length, their regularity and the memory held in them show.
//!
//! Must not depend on savings and texts.

use phasemeter_policy::column::mean;
use phasemeter_policy::{Accounts, Gpu, Window, Workload};

use crate::holes::Holes;

/// Points of a column per cycle, from which both of its halves are seen. Two are the fewest that show both.
const POINTS_PER_CYCLE: f64 = 2.0;

/// Share of the time of pauses in which a process holds the GPU, from which it does, and up to which it does not.
/// Assumptions.
const HELD: f64 = 0.8;
const FREE: f64 = 0.2;

/// Time without work from which a GPU is idle with bursts: of training and batch, and of others. Assumptions.
const MOSTLY_IDLE: f64 = 0.8;
const IDLE: f64 = 0.4;

/// Pauses up to which a process saves its state or evaluates, in seconds. An assumption.
const SHORT_SECONDS: f64 = 180.0;

/// A process that ends and starts again this often, in cycles of at most so many seconds, does not get to work. An
/// assumption.
const CRASHES: f64 = 10.0;
const CRASH_PERIOD: f64 = 600.0;

/// Utilization while a process that crashes starts, relative to that of work. An assumption.
const STARTING: f64 = 0.7;

/// Correlation of the utilization of GPUs that work in turn.
const ALTERNATING: f64 = -0.7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// Regular or short, with the memory held: it saves or evaluates.
    Checkpoints,
    /// It waits for its next task with the memory held.
    Tasks,
    /// The job starts anew.
    Restarts,
    /// The process ends soon after each start.
    CrashLoop,
    /// Between jobs.
    Queue,
    /// The memory is free, whatever runs in between.
    Free,
    /// Other GPUs work in the meantime.
    Alternating,
    /// A process holds the memory.
    Unknown,
}

pub(crate) fn cause(gpu: &Gpu, holes: &Holes, window: &Window) -> Option<Cause> {
    let idle = |gpu: &Gpu| gpu.share(Accounts::idle);
    // If one works while the other waits, they are idle as long as a GPU is that never works.
    let alternates = |other: &Gpu| {
        other.is_alike(gpu)
            && idle(gpu) + idle(other) >= 0.5
            && correlation(&gpu.utilization, &other.utilization).is_some_and(|r| r <= ALTERNATING)
    };
    if gpu.workload == Workload::Training && window.gpus.iter().any(alternates) {
        return Some(Cause::Alternating);
    }
    let job = matches!(gpu.workload, Workload::Training | Workload::Batch);
    if is_crash_loop(gpu, holes, window.step_seconds) {
        return Some(Cause::CrashLoop);
    }
    if gpu.quiet_share() > if job { MOSTLY_IDLE } else { IDLE } {
        return None;
    }
    let is_held = holes.held >= HELD;
    let is_short = holes.mean() <= SHORT_SECONDS;
    match gpu.workload {
        Workload::Training if is_held && (holes.is_regular || is_short) => Some(Cause::Checkpoints),
        Workload::Training if !is_held => Some(Cause::Restarts),
        Workload::Batch if is_held && holes.is_regular && is_short => Some(Cause::Checkpoints),
        Workload::Batch if is_held => Some(Cause::Tasks),
        Workload::Batch => Some(Cause::Queue),
        Workload::Unknown if holes.held <= FREE => Some(Cause::Free),
        Workload::Training | Workload::Unknown => Some(Cause::Unknown),
        Workload::Serving | Workload::Interactive => None,
    }
}

/// Whether a process takes memory and ends, over and over, and hardly works in that time, while it worked before or
/// after. Jobs that follow one another work as much as ever, and pauses of a notebook are its user's.
fn is_crash_loop(gpu: &Gpu, holes: &Holes, step_seconds: f64) -> bool {
    if holes.count < CRASHES || holes.held > FREE || gpu.workload == Workload::Interactive {
        return false;
    }
    let level = STARTING * gpu.accounts.busy().level();
    let near = gpu.utilization.windows(3).filter(|points| points.iter().all(|at| *at < level));
    let (seconds, work) = near.fold((0.0, 0.0), |(seconds, work), points| {
        (seconds + step_seconds, work + points[1] * step_seconds)
    });
    let cycle = seconds / holes.count;
    // Points that are longer than a cycle are means of work and pauses.
    let is_seen = POINTS_PER_CYCLE * step_seconds <= cycle;
    is_seen && cycle <= CRASH_PERIOD && work <= 0.5 * gpu.accounts.observed().effective_seconds
}

/// The correlation of two columns.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let pairs = a.iter().zip(b).filter(|(a, b)| !a.is_nan() && !b.is_nan());
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}
