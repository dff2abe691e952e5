//! Processes that ended when memory ran out: memory rises until it is full, and falls at once, with the load.

use crate::share;
use phasemeter_policy::{Gpu, Window, Workload};

use crate::NEARLY_FULL;

/// Share of the memory in use before an end, at least: a point is a mean. An assumption.
const FULL: f64 = 0.8;

/// What memory falls by at an end, as a share of all. An assumption.
const FALL: f64 = 0.08;
/// What it rises by in the second half before one: work that ends by itself held what it needed. An assumption.
const RISE: f64 = 0.03;

/// Load after an end, relative to that of work: a point is a mean of both. An assumption.
const STOPPED: f64 = 0.75;
/// Points in which memory and load fall, and of a start that shows no rise.
const AT_ONCE: usize = 2;

/// Ends of processes by a lack of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfMemory {
    /// How many.
    pub count: usize,
    /// Memory that stays in use after the last of them, in bytes.
    pub kept: f64,
    /// From the start of the last of them to its end, in seconds.
    pub seconds: f64,
}

/// Returns how often memory ran out; `None` if it did not, or once, which may be the end of the work. A person ends a
/// session.
pub fn out_of_memory(gpu: &Gpu, window: &Window) -> Option<OutOfMemory> {
    let total = gpu.memory_total_bytes.filter(|total| *total > 0)? as f64;
    let is_full = gpu.sensors.memory_in_use?.max >= NEARLY_FULL * total;
    if gpu.workload == Workload::Interactive || !is_full {
        return None;
    }
    let level = gpu.accounts.busy().level();
    let load = |point: usize| gpu.utilization.get(point).map_or(1.0, |load| load / level);
    let mut found: Option<OutOfMemory> = None;
    let mut start = 0;
    for (point, highest) in gpu.memory.iter().enumerate() {
        if point < start {
            continue;
        }
        let after = (point + 1..=point + AT_ONCE).filter_map(|next| {
            let bytes = gpu.memory.get(next)?;
            (load(next) < STOPPED && *bytes <= highest - FALL * total).then_some((next, *bytes))
        });
        let lowest = after.min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((next, kept)) = lowest.filter(|_| *highest >= FULL * total) else { continue };
        let first =
            gpu.memory[start..=point].iter().rposition(|bytes| *bytes <= kept + RISE * total);
        let first = first.map_or(start, |position| start + position);
        let middle = gpu.memory.get(first + (point - first) / 2);
        let rises = || middle.is_some_and(|middle| highest - middle >= RISE * total);
        let ran_out = if point - first <= AT_ONCE { load(point) < share::MOST } else { rises() };
        if ran_out {
            let count = found.map_or(0, |before| before.count) + 1;
            let seconds = (point - first) as f64 * window.step_seconds;
            found = Some(OutOfMemory { count, kept, seconds });
        }
        start = next;
    }
    // Pauses are exact, and points that are longer have a part of either.
    let pauses = gpu.activity.pauses.quiet;
    let is_held = pauses.held_seconds > share::MOST * pauses.seconds;
    let found = found.filter(|found| found.count > 1)?;
    Some(if is_held || pauses.seconds <= 0.0 { found } else { OutOfMemory { kept: 0.0, ..found } })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    /// A GPU with this memory in each cycle of points, in GiB of 80, without load where it is `kept` or less.
    fn cycles(memory: &[f64], kept: f64) -> Option<OutOfMemory> {
        let mut gpu = steady(36_000, 0.9);
        let gib = |at: f64| at * f64::from(1 << 30);
        let points = memory.iter().cycle().take(gpu.utilization.len());
        gpu.memory = points.clone().map(|at| gib(*at)).collect();
        for (load, at) in gpu.utilization.iter_mut().zip(points) {
            if *at <= kept {
                *load = 0.0;
            }
        }
        gpu.memory_total_bytes = Some(80 << 30);
        let [low, most] = [gib(0.0), gib(79.8)];
        gpu.sensors.memory_in_use = Some(Percentiles { p5: low, p50: low, p95: most, max: most });
        let window = window(vec![gpu]);
        out_of_memory(&window.gpus[0], &window)
    }

    #[test]
    fn memory_that_rises_until_the_process_ends_ran_out() {
        let leak: Vec<_> =
            (0..40).map(|point| 5.0 + f64::from(point) * 1.9).chain([0.0; 3]).collect();
        let found = cycles(&leak, 0.0).unwrap();
        assert!(found.count > 1 && found.kept < 1.0 && found.seconds > 600.0, "{found:?}");
        let beside_another = [60.0, 62.0, 66.0, 70.0, 74.0, 78.0, 60.0, 60.0, 60.0];
        let found = cycles(&beside_another, 60.0).unwrap();
        assert!(found.kept > 5e10, "{found:?}");
    }

    #[test]
    fn work_that_needs_all_memory_and_ends_did_not_run_out() {
        let job: Vec<_> = [79.0; 40].into_iter().chain([0.0; 3]).collect();
        assert_eq!(cycles(&job, 0.0), None);
        let varies = [70.0, 79.0, 72.0, 79.0, 71.0];
        assert_eq!(cycles(&varies, 0.0), None);
    }
}
