//! Memory that runs out: it rises, is nearly full, or ended the process before.

use phasemeter_diagnoses::{
    FREE_MEMORY, NEARLY_FULL, OutOfMemory, confidence, out_of_memory, share, time,
};
use phasemeter_policy::format::{DAY, count, duration, gib, minutes, percent};
use phasemeter_policy::{Gpu, Memory, Recommendation, Window, Workload, evidence, groups};

use crate::{Settings, risk};

/// Variation of the memory in use, as a share of all, from which it varies with the work: an allocator that
/// took all of it is full by design. An assumption.
const VARIES: f64 = 0.01;

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let (ended, others): (Vec<_>, Vec<_>) =
        window.gpus.iter().map(|gpu| (gpu, out_of_memory(gpu))).partition(|it| it.1.is_some());
    let others = || others.iter().map(|(gpu, _)| *gpu);
    let rising = others().filter_map(|gpu| filling(gpu, settings, window));
    let full = others().filter_map(|gpu| Some((gpu, nearly_full(gpu, window)?)));
    let full = groups(full, |a, b| a.0.workload == b.0.workload);
    let ended = ended.into_iter().filter_map(|(gpu, found)| Some(ended_by_it(gpu, found?)));
    ended.chain(rising).chain(full.iter().map(|group| keep_free(group))).collect()
}

/// Memory that ran out, which explains why the process ended.
fn ended_by_it(gpu: &Gpu, found: OutOfMemory) -> Recommendation {
    let total = gpu.memory_total_bytes.map_or(f64::INFINITY, |total| total as f64);
    let (lever, why, action) = if found.kept >= share::HARDLY_ANY * total {
        let kept = gib(found.kept);
        let lists =
            gpu.vendor().tool(" (nvidia-smi lists its PID)", " (amd-smi process lists its PID)");
        (
            "release_memory",
            format!(" {kept} stay in use after each end, by another process."),
            format!(
                "See what holds the rest{lists}: end it if it is of an earlier run; if it serves, let this work take less, with \
                 a smaller batch, or give it a GPU of its own."
            ),
        )
    } else if found.seconds >= time::USUAL {
        (
            "restart",
            format!(" The last worked for {}.", duration(found.seconds)),
            "Continue from the last saved state with more room. If memory grew at once, a later phase needs it: a smaller batch, \
             accumulated gradients or activation checkpointing. If it grew all the time, find what grows: references to past \
             steps or requests, operations that are added in a loop, or a cache without a limit."
                .to_owned(),
        )
    } else {
        (
            "other",
            String::new(),
            "Read the error in its log first. If it took too much at the start, take less: a smaller batch, shorter \
             inputs, or a smaller share of the memory for a server."
                .to_owned(),
        )
    };
    let times = count(found.count as usize, "time");
    Recommendation {
        evidence: evidence([
            ("ends", found.count, "1"),
            ("memory.kept", found.kept, "By"),
            ("memory.time_to_fill", found.seconds, "s"),
        ]),
        ..risk(
            "health.out-of-memory",
            lever,
            [gpu],
            [&["Out of memory: it ended the process ", &times].concat(), &action],
            format!(
                "Memory rose until it was full, and fell within a minute, with the load, {times}: most likely the process \
                 ended.{why}"
            ),
            confidence::VERY_LIKELY,
        )
    }
}

/// Memory that rises, and is full soon.
fn filling(gpu: &Gpu, settings: &Settings, window: &Window) -> Option<Recommendation> {
    let Memory::Rising { share, seconds_left } = gpu.memory_use(window.step_seconds) else {
        return None;
    };
    // A service has no end that comes before.
    let horizon = match gpu.workload {
        Workload::Serving => f64::max(settings.memory_full_seconds, DAY),
        _ => settings.memory_full_seconds,
    };
    if seconds_left > horizon || gpu.accounts.observed().seconds < time::USUAL {
        return None;
    }
    let (lever, action) = match gpu.workload {
        Workload::Training => (
            "checkpoint_interval",
            "Save the state of the job now, then find what grows: references to tensors of past steps, \
             or lists of losses that were not detached.",
        ),
        Workload::Serving => (
            "restart",
            "Restart the server in a quiet minute, then find the leak: a cache without a limit is \
             typical.",
        ),
        _ => ("measure", "Find what grows, for example with PyTorch's memory snapshot."),
    };
    let left = minutes(seconds_left);
    let title = ["Memory runs out in about ", &left].concat();
    let rationale = format!(
        "Memory is rising: it is at {}, and full in about {left} at this rate. The process then fails, and loses what it \
         has not saved.",
        percent(share),
    );
    Some(Recommendation {
        evidence: evidence([("memory.share", share, "1"), ("memory.time_left", seconds_left, "s")]),
        ..risk("health.memory", lever, [gpu], [&title, action], rationale, confidence::VERY_LIKELY)
    })
}

/// The highest share of the memory in use, if it was nearly full at times.
fn nearly_full(gpu: &Gpu, window: &Window) -> Option<f64> {
    let total = gpu.memory_total_bytes.filter(|total| *total > 0)? as f64;
    let in_use = gpu.sensors.memory_in_use?;
    let varies = in_use.max - in_use.p50 >= VARIES * total;
    let share = Some(in_use.max / total).filter(|share| *share >= NEARLY_FULL && varies)?;
    // Last, since it takes a pass over the column.
    matches!(gpu.memory_use(window.step_seconds), Memory::InUse(_)).then_some(share)
}

fn keep_free(group: &[(&Gpu, f64)]) -> Recommendation {
    let (first, _) = group[0];
    let share = group.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let (lever, action) = match first.workload {
        Workload::Training if first.is_bouncing() => (
            "checkpointing",
            "If it falls in each pause, the allocator empties its cache to make room (num_alloc_retries of \
             torch.cuda.memory_stats() counts that): need less, by activation checkpointing or a smaller batch, and set \
             PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        ),
        Workload::Training => (
            "checkpointing",
            "Turn on activation checkpointing, or limit the length of samples, and let the batch take only what \
             leaves that much free. Save the state of the job often.",
        ),
        _ => (
            "other",
            "Limit the length of inputs or requests, or their number at a time, or lower the share of the memory that \
             a server takes.",
        ),
    };
    let (up_to, free) = (percent(share), percent(FREE_MEMORY));
    Recommendation {
        evidence: evidence([("memory.share", share, "1")]),
        ..risk(
            "health.memory-full",
            lever,
            group.iter().map(|(gpu, _)| *gpu),
            [&format!("Up to {up_to} of memory was in use: keep {free} free"), action],
            format!(
                "Up to {up_to} of the memory was in use, and the amount varies: a longer input than so far may end the \
                 process."
            ),
            confidence::DOUBTFUL,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window, with_memory, with_varying_memory};

    use super::*;

    const GIB: f64 = (1 << 30) as f64;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus))
    }

    #[test]
    fn rising_memory_is_a_risk_and_a_pool_is_not() {
        let mut rising = with_memory(steady(3_600, 0.95), 0.0);
        let points = rising.memory.len() as f64;
        let rise = |(i, bytes): (usize, &mut f64)| {
            *bytes = (41.0 + 36.0 * i as f64 / points) * (1 << 30) as f64;
        };
        rising.memory.iter_mut().enumerate().for_each(rise);
        assert_eq!(recommendations(vec![rising.clone()])[0].lever, "checkpoint_interval");
        let serving = Gpu { workload: Workload::Serving, ..rising };
        assert_eq!(recommendations(vec![serving])[0].lever, "restart");
        assert!(recommendations(vec![with_memory(steady(3_600, 0.6), 77.3)]).is_empty());
    }

    #[test]
    fn nearly_full_memory_is_a_risk_if_it_varies() {
        let using = |gpu: Gpu, low: f64, high: f64| {
            let [p5, p95] = [low, high].map(|gib| gib * GIB);
            let mut gpu = gpu;
            gpu.sensors.memory_in_use = Some(Percentiles { p5, p50: p5, p95, max: p95 });
            recommendations(vec![gpu])
        };
        let varying = || with_varying_memory(steady(3_600, 0.95), 77.0);
        assert_eq!(using(varying(), 73.0, 77.0)[0].code, "health.memory-full");
        assert!(using(varying(), 70.0, 74.0).is_empty(), "93%");
        assert!(using(varying(), 77.0, 77.2).is_empty(), "all of it was taken at once");
        assert!(using(with_memory(steady(3_600, 0.95), 77.0), 73.0, 77.0).is_empty(), "a pool");
    }
}
