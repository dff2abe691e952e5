//! GPUs of one training job that do the same, but hold unequal memory, or draw unequal power: one of them holds what limits
//! all, or some have more to compute, and the others wait for them.

use phasemeter_diagnoses::{
    MOSTLY_FULL, SAME_MEMORY, SIMILAR, confidence, fastest_clock, hangs, is_impaired, lag,
    misses_one, share,
};
use phasemeter_policy::format::{count, decimal, gib, percent, subject, these};
use phasemeter_policy::{
    Gpu, Percentiles, Recommendation, Vendor, Window, Workload, evidence, groups, mean,
};

use crate::risk;

/// Fewest equal GPUs beside which another one is odd. An assumption.
const MIN_OTHERS: usize = 3;

/// Power at the lowest, relative to that at the highest, from which a full GPU works without a wait. An assumption.
const STEADY_POWER: f64 = 0.8;

/// Warns of unequal GPUs among those of one node or job that do the same.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let of_jobs = |chosen: fn(&Gpu) -> bool| {
        let trains = |gpu: &&Gpu| gpu.workload == Workload::Training && chosen(gpu);
        groups(window.gpus.iter().filter(trains), |a, b| a.is_alike(b))
    };
    let busy = of_jobs(|gpu| gpu.accounts.observed().level() >= share::MOST);
    let full = of_jobs(|gpu| gpu.full_share() >= MOSTLY_FULL);
    let found = busy.iter().map(|job| more_memory(job));
    let found = found.chain(full.iter().map(|job| waiting(job, window)));
    let most = window.gpus.iter().filter_map(|gpu| Some(power(gpu)?.p50)).fold(0.0, f64::max);
    let low = window.gpus.iter().filter(|gpu| has_little_power(gpu, most, window));
    let low = groups(low, |a, b| a.is_alike(b) && a.node() == b.node());
    found.flatten().chain(low.iter().map(|group| compare(group))).collect()
}

/// Power at work. In training, little of it is that of a slow GPU.
fn power(gpu: &Gpu) -> Option<Percentiles> {
    gpu.sensors.busy_power.filter(|_| gpu.workload != Workload::Training)
}

/// Whether it is full at half of the power, or less, that GPUs which do the same draw. `most` is the highest power of all, so
/// that names are compared only if there is a difference.
fn has_little_power(gpu: &Gpu, most: f64, window: &Window) -> bool {
    let Some(own) = power(gpu).filter(|own| own.p95 <= share::MOST * most) else { return false };
    let works = |other: &&Gpu| other.accounts.observed().level() >= window.thresholds().productive;
    let draws = |other: &&Gpu| power(other).is_some_and(|it| own.p95 <= share::MOST * it.p50);
    let mut others = window.gpus.iter().filter(draws).filter(works);
    gpu.full_share() >= MOSTLY_FULL
        && others.any(|other| other.is_alike(gpu))
        && !hangs(gpu, window)
        && !is_impaired(gpu, window)
}

fn compare(group: &[&Gpu]) -> Recommendation {
    let watts = mean(group, |gpu| gpu.sensors.busy_power.map_or(0.0, |it| it.p50));
    let draw = [&*decimal(watts, 0), " W"].concat();
    Recommendation {
        evidence: evidence([("power", watts, "W")]),
        ..risk(
            "health.uneven-power",
            "measure",
            group.iter().copied(),
            [
                &format!(
                    "Full at {draw}, at most half of what others like {} draw",
                    these(group.len())
                ),
                "Compare their requests, and the time of each. If several GPUs serve one model, look at the way between them: \
                 across sockets, or without a direct link, each exchange waits. Else balance the load.",
            ],
            format!(
                "{} is always busy at {draw}; others of this model, which do the same, draw at least twice as much. Most likely \
                 it waits: utilization shows only that a kernel runs.",
                subject(group.len()),
            ),
            confidence::PROBABLE,
        )
    }
}

/// The one that holds more than all others, which hold the same.
fn more_memory(job: &[&Gpu]) -> Option<Recommendation> {
    let held = |gpu: &Gpu| gpu.sensors.memory_in_use.map(|it| it.p50);
    let order = |gpu: &Gpu| held(gpu).unwrap_or(0.0);
    let most = job.iter().copied().max_by(|a, b| order(a).total_cmp(&order(b)))?;
    let others: Option<Vec<f64>> =
        job.iter().filter(|gpu| gpu.id != most.id).map(|gpu| held(gpu)).collect();
    let (own, others) = (held(most)?, others.filter(|others| others.len() >= MIN_OTHERS)?);
    let usual = mean(&others, |bytes| *bytes);
    let are_equal = others.iter().all(|bytes| (bytes - usual).abs() <= SIMILAR * usual);
    let more = own - usual;
    let level = |gpu: &Gpu| gpu.accounts.observed().level();
    let does_the_same = job.iter().all(|gpu| (level(gpu) - level(most)).abs() <= SIMILAR);
    let is_more = does_the_same
        && more >= SAME_MEMORY * own
        && more >= share::HARDLY_ANY * most.memory_total_bytes? as f64;
    let lists =
        Vendor::of([most]).tool(" (nvidia-smi lists them)", " (amd-smi process lists them)");
    (are_equal && is_more).then(|| Recommendation {
        evidence: evidence([("memory.used", own, "By"), ("memory.used.others", usual, "By")]),
        ..risk(
            "health.uneven-memory",
            "measure",
            [most],
            [
                &["It holds ", &*gib(more), " more than the others of its job"].concat(),
                &format!(
                    "Look at its processes{lists}: ranks that did not choose their GPU, or load a checkpoint to the first one, \
                     keep memory there. Until that is mended, it limits the batch of all."
                ),
            ],
            format!(
                "It holds {}, and {} at the same load {} each: {} more for each of them.",
                gib(own),
                count(others.len(), "other"),
                gib(usual),
                gib(more / others.len() as f64),
            ),
            confidence::PROBABLE,
        )
    })
}

/// Those whose power falls again and again, while that of others, at the same clock, does not.
fn waiting(job: &[&Gpu], window: &Window) -> Option<Recommendation> {
    let power = |gpu: &Gpu| gpu.sensors.busy_power.map(|it| (it.p5, it.p95));
    let powers: Option<Vec<_>> = job.iter().map(|gpu| Some((*gpu, power(gpu)?))).collect();
    let powers = powers?;
    let highest = mean(&powers, |(_, (_, high))| *high);
    let are_equal = powers.iter().all(|(_, (_, high))| (high - highest).abs() <= SIMILAR * highest);
    let (steady, others): (Vec<_>, Vec<_>) =
        powers.into_iter().partition(|(_, (low, high))| *low >= STEADY_POWER * high);
    let all_wait = others.iter().all(|(_, (low, high))| *low <= share::MOST * high);
    let fastest = fastest_clock(window);
    let is_healthy = |gpu: &Gpu| {
        lag(gpu, window, fastest).is_none() && !hangs(gpu, window) && !misses_one(gpu, window)
    };
    let are_healthy = || job.iter().all(|gpu| is_healthy(gpu));
    let is_uneven = are_equal && all_wait && !steady.is_empty() && !others.is_empty();
    if !is_uneven || !are_healthy() {
        return None;
    }
    let low = mean(&others, |(_, (low, high))| low / high);
    let (waiting, pace) = (others.len(), steady.len());
    Some(Recommendation {
        evidence: evidence([("power.lowest", low, "1"), ("gpus.others", pace as f64, "{GPU}")]),
        ..risk(
            "health.uneven-work",
            "other",
            others.iter().map(|(gpu, _)| *gpu),
            [
                &format!(
                    "{} wait again and again for {pace} with more to compute",
                    count(waiting, "GPU")
                ),
                "If they are of one job, divide its work by what it costs, not by the number of samples: by length, and \
                 for attention by its square; or by experts and stages. Compare the times of a step by rank.",
            ],
            format!(
                "All are full, at the same clock. The power of {} falls to {} of its highest at times, as in an exchange; \
                 that of {} does not.",
                count(waiting, "GPU"),
                percent(low),
                count(pace, "other"),
            ),
            confidence::EVEN,
        )
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory};

    use super::*;

    const GIB: f64 = (1 << 30) as f64;

    fn constant(value: f64) -> Percentiles {
        Percentiles { p5: value, p50: value, p95: value, max: value }
    }

    fn holding(gib: f64) -> Gpu {
        let mut gpu = with_memory(steady(3_600, 0.98), gib);
        gpu.sensors.memory_in_use = Some(constant(gib * GIB));
        gpu
    }

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        recommend(&window(gpus)).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn gpu_that_holds_more_than_its_equals_is_named() {
        let others = |gib: f64| [20.0; 7].map(|it| holding(it + gib)).to_vec();
        let found = recommend(&window([others(4.0), vec![holding(37.0)]].concat()));
        assert_eq!((found.len(), found[0].gpus.len()), (1, 1));
        assert!(found[0].title.starts_with("It holds 13.0 GiB more"), "{}", found[0].title);
        assert!(found[0].rationale.contains("1.9 GiB more for each"), "{}", found[0].rationale);
        assert!(codes([others(4.0), vec![holding(26.0)]].concat()).is_empty(), "a little more");
        let stages = [60.0, 50.0, 40.0, 30.0].map(holding).to_vec();
        assert!(codes(stages).is_empty(), "stages of a pipeline");
        let serving = |gpu: Gpu| Gpu { workload: Workload::Serving, ..gpu };
        let served = [others(4.0), vec![holding(37.0)]].concat().into_iter().map(serving);
        assert!(codes(served.collect()).is_empty());
    }

    #[test]
    fn full_server_at_little_power_is_compared_with_its_peers() {
        let serving = |level: f64, watts: f64| {
            let mut gpu = Gpu { workload: Workload::Serving, ..steady(3_600, level) };
            gpu.sensors.busy_power = Some(constant(watts));
            gpu
        };
        let pairs =
            |watts: f64| vec![serving(0.9, 260.0), serving(1.0, watts), serving(1.0, watts)];
        let found = recommend(&window(pairs(115.0)));
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.uneven-power", 2));
        assert!(codes(pairs(200.0)).is_empty());
        assert!(codes(vec![serving(0.3, 260.0), serving(1.0, 115.0)]).is_empty(), "little load");
    }

    #[test]
    fn gpus_that_wait_for_those_with_more_work_are_named() {
        let drawing = |low: f64| {
            let mut gpu = steady(3_600, 0.99);
            gpu.sensors.busy_power = Some(Percentiles { p5: low, ..constant(640.0) });
            gpu.sensors.sm_clock_mhz = Some(1_700.0);
            gpu
        };
        let found = recommend(&window([220.0, 230.0, 225.0, 600.0].map(drawing).to_vec()));
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.uneven-work", 3));
        assert!(
            found[0].title.starts_with("3 GPUs wait again and again for 1"),
            "{}",
            found[0].title
        );
        assert!(codes([220.0; 4].map(drawing).to_vec()).is_empty(), "all wait for one another");
        let mut slow = [220.0, 230.0, 225.0, 600.0].map(drawing).to_vec();
        slow[3].sensors.sm_clock_mhz = Some(900.0);
        assert!(codes(slow).is_empty(), "a slow GPU, which is named as such");
    }
}
