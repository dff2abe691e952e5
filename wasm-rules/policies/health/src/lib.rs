//! Warns of what ends or slows a job: a hang, memory that runs out, and GPUs that are lost, capped,
//! hot or slower than the others.
//!
//! A risk saves nothing by itself; a job that hangs or fails loses its work.

mod hardware;

use phasemeter_policy::column::mean;
use phasemeter_policy::format::{decimal, duration, percent, subject};
use phasemeter_policy::{
    Gpu, Memory, Policy, Recommendation, RecommendationKind, Recommender, Remediation, Response,
    Target, Window, Workload, evidence, groups, same_model,
};

phasemeter_policy::settings! {
    /// Time at full utilization and a flat low power after which a job hangs, in seconds.
    hang_seconds: number = 600.0 in 60.0..=86400.0;
    /// Warn if memory is full within this time, in seconds.
    memory_full_seconds: number = 14400.0 in 60.0..=604800.0;
}

/// Confidence in a hang or a loss, in memory, heat and limits, and in a slow clock. Assumptions.
const SURE_DEAD: f64 = 0.9;
const SURE: f64 = 0.8;
const SURE_SLOW: f64 = 0.7;

/// Observed time that shows that memory rises, in seconds. An assumption.
const MIN_RISE_SECONDS: f64 = 1_800.0;

/// Power of a GPU that computes nothing, as a share of its limit. An idle H100 draws 10–20%.
const HUNG_POWER: f64 = 0.25;

/// Maximum variation of that power, as a share of the limit. Work varies it more.
const HUNG_VARIATION: f64 = 0.03;

/// Utilization of a collective that waits.
const FULL: f64 = 0.99;

/// Power limit relative to the others from which a GPU is capped, and the power relative to its limit
/// from which that slows it.
const CAPPED: f64 = 0.9;

/// Clock relative to the others, or to its own maximum, from which a GPU is slow.
const SLOW: f64 = 0.8;

/// Temperature from which a slow GPU is hot, in degrees Celsius. Data center GPUs slow down between 83
/// and 95.
const HOT: f64 = 83.0;

struct Health;

impl Policy for Health {
    const NAME: &'static str = "health";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Warns of hangs, of memory that runs out, and of faulty, lost, capped, hot or slow GPUs.";
    type Settings = Settings;
}

impl Recommender for Health {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let mut found = Vec::new();
        found.extend(hung(settings, window));
        found.extend(lost(window));
        found.extend(hardware::faulty(window));
        found.extend(hardware::narrow(window));
        found.extend(window.gpus.iter().filter_map(|gpu| filling(gpu, settings, window)));
        let capped = capped(window);
        let clocks = window.gpus.iter().filter_map(|gpu| gpu.sensors.sm_clock_mhz);
        let fastest = clocks.fold(0.0, f64::max);
        found.extend(window.gpus.iter().filter_map(|gpu| {
            let is_capped = capped.iter().any(|one| one.gpus.contains(&gpu.id));
            if is_capped { None } else { hot(gpu).or_else(|| slow(gpu, window, fastest)) }
        }));
        found.extend(capped);
        found.into()
    }
}

/// A risk, with low effort.
fn risk<'a>(
    code: &str,
    lever: &str,
    gpus: impl IntoIterator<Item = &'a Gpu>,
    texts: [&str; 2],
    rationale: String,
    confidence: f64,
) -> Recommendation {
    Recommendation {
        title: texts[0].to_owned(),
        action: texts[1].to_owned(),
        rationale,
        confidence,
        kind: RecommendationKind::Risk,
        reversible: false,
        ..Recommendation::new(code, Target::Throughput, lever, gpus)
    }
}

/// Returns the seconds since which a GPU hangs: fully busy at a flat low power until the end.
fn hangs(gpu: &Gpu, step: f64) -> Option<f64> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0)?;
    let points = gpu.utilization.iter().zip(&gpu.power).rev();
    let (mut low, mut high, mut count) = (f64::INFINITY, 0.0_f64, 0);
    // The last point may be partly over.
    for (utilization, power) in points.skip(1) {
        (low, high) = (low.min(*power), high.max(*power));
        let is_flat = high <= HUNG_POWER * limit && high - low <= HUNG_VARIATION * limit;
        if *utilization < FULL || utilization.is_nan() || power.is_nan() || !is_flat {
            break;
        }
        count += 1;
    }
    (count > 0).then_some(f64::from(count) * step)
}

fn hung(settings: &Settings, window: &Window) -> Option<Recommendation> {
    let hung = window.gpus.iter().filter_map(|gpu| {
        let since = hangs(gpu, window.step_seconds)?;
        (since >= settings.hang_seconds).then_some((gpu, since))
    });
    let hung: Vec<_> = hung.collect();
    let (first, since) = hung.first()?;
    let watts = *first.power.iter().rev().find(|power| !power.is_nan())?;
    let limit = first.power_limit_watts?;
    let rationale = format!(
        "{} has been at 100% with a flat {} of {} W for {}: a kernel runs, but computes nothing. This is \
         typical of a collective that waits for a rank that is gone.",
        subject(hung.len()),
        decimal(watts, 0),
        decimal(limit, 0),
        duration(*since),
    );
    Some(Recommendation {
        evidence: evidence([
            ("hung.time", *since, "s"),
            ("power", watts, "W"),
            ("power.share_of_limit", watts / limit, "1"),
        ]),
        remediation: Some(restart(window)),
        ..risk(
            "health.hang",
            "restart",
            hung.iter().map(|(gpu, _)| *gpu),
            [
                "Restart this job: it hangs",
                "Dump the stacks of all ranks first, for example with py-spy dump, to find the one that \
                 stopped. Then restart from the last saved state. A watchdog (NCCL's timeout) would end \
                 the job after minutes.",
            ],
            rationale,
            SURE_DEAD,
        )
    })
}

/// Restarts the job, by Slurm if it is one of its jobs.
fn restart(window: &Window) -> Remediation {
    match window.attribute("slurm.job.id") {
        Some(id) => Remediation::new("slurm.requeue", [("job_id", id.to_owned())]),
        None => Remediation::new("job.restart", []),
    }
}

fn lost(window: &Window) -> Option<Recommendation> {
    let lost = |gpu: &&Gpu| gpu.metric("lost.seconds").is_some_and(|seconds| seconds > 0.0);
    let gpus: Vec<_> = window.gpus.iter().filter(lost).collect();
    let seconds = gpus.first()?.metric("lost.seconds")?;
    let rationale = format!(
        "{} has not responded for {}, and costs the same. A lost GPU does not come back by itself.",
        subject(gpus.len()),
        duration(seconds),
    );
    Some(Recommendation {
        evidence: evidence([("lost.time", seconds, "s")]),
        remediation: Some(Remediation::new("nvidia.gpu-reset", [])),
        ..risk(
            "health.lost",
            "restart",
            gpus,
            [
                "Reset the lost GPU, or replace its node",
                "Drain the node, reset the GPU or restart the node, and look for XID errors in the \
                 kernel log. If it is lost again, have it replaced.",
            ],
            rationale,
            SURE_DEAD,
        )
    })
}

/// Memory that is full soon.
fn filling(gpu: &Gpu, settings: &Settings, window: &Window) -> Option<Recommendation> {
    let Memory::Rising { share, seconds_left } = gpu.memory_use(window.step_seconds) else {
        return None;
    };
    if seconds_left > settings.memory_full_seconds
        || gpu.accounts.observed().seconds < MIN_RISE_SECONDS
    {
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
    let rationale = format!(
        "Memory has risen all the time, to {}, and is full in about {} at this rate. The process then \
         fails, and loses what it has not saved.",
        percent(share),
        duration(seconds_left),
    );
    Some(Recommendation {
        evidence: evidence([("memory.share", share, "1"), ("memory.time_left", seconds_left, "s")]),
        ..risk("health.memory", lever, [gpu], ["Memory runs out soon", action], rationale, SURE)
    })
}

/// A GPU that runs at its power limit, which is lower than that of others of its model.
struct Capped<'a> {
    gpu: &'a Gpu,
    power: f64,
    limit: f64,
    highest: f64,
}

/// GPUs with a lower power limit than others of their model, which run at it.
fn capped(window: &Window) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter_map(|gpu| {
        let limit = gpu.power_limit_watts?;
        // Limits mostly are equal, and numbers are compared faster than names and columns.
        let higher = window.gpus.iter().filter(|other| {
            let is_higher = other.power_limit_watts.is_some_and(|other| limit <= CAPPED * other);
            is_higher && same_model(&other.model, &gpu.model)
        });
        let highest = higher.filter_map(|other| other.power_limit_watts).reduce(f64::max)?;
        let power = mean(&gpu.power).filter(|power| *power >= CAPPED * limit)?;
        Some(Capped { gpu, power, limit, highest })
    });
    let alike = |a: &Capped<'_>, b: &Capped<'_>| a.limit == b.limit && a.highest == b.highest;
    groups(found, alike).iter().filter_map(|group| raise_limit(group)).collect()
}

fn raise_limit(group: &[Capped<'_>]) -> Option<Recommendation> {
    let Capped { power, limit, highest, .. } = group.first()?;
    let rationale = format!(
        "Held at {} of {} W, while others of this model have up to {} W: these GPUs run slower, and a job \
         waits for the slowest.",
        decimal(*power, 0),
        decimal(*limit, 0),
        decimal(*highest, 0),
    );
    Some(Recommendation {
        evidence: evidence([("power.limit", *limit, "W"), ("power.highest_limit", *highest, "W")]),
        remediation: Some(Remediation::new(
            "nvidia.power-limit",
            [("watts", decimal(*highest, 0).replace(',', ""))],
        )),
        ..risk(
            "health.power-limit",
            "power_limit",
            group.iter().map(|capped| capped.gpu),
            [
                "Set one power limit for all GPUs of this model",
                "Raise the limit with nvidia-smi --power-limit, or confirm that it is meant, for example \
                 by the power of the rack.",
            ],
            rationale,
            SURE,
        )
    })
}

/// A GPU that lowers its clock in the heat.
fn hot(gpu: &Gpu) -> Option<Recommendation> {
    let sensors = &gpu.sensors;
    let (clock, highest) = (sensors.sm_clock_mhz?, sensors.max_sm_clock_mhz?);
    let temperature = sensors.temperature_celsius?;
    if clock > SLOW * highest || temperature < HOT {
        return None;
    }
    let rationale = format!(
        "At {} °C on average, its clock fell to {} MHz on average, {} of its maximum of {} MHz.",
        decimal(temperature, 0),
        decimal(clock, 0),
        percent(clock / highest),
        decimal(highest, 0),
    );
    Some(Recommendation {
        evidence: evidence([
            ("temperature", temperature, "Cel"),
            ("clock", clock, "MHz"),
            ("clock.max", highest, "MHz"),
        ]),
        ..risk(
            "health.heat",
            "other",
            [gpu],
            [
                "Repair the cooling of this GPU",
                "Check fans, airflow and dust, or move the job to another GPU. A lower power limit only \
                 makes it slow in a steadier way.",
            ],
            rationale,
            SURE,
        )
    })
}

/// A GPU whose clock is lower than that of the others of its job; `fastest` is the highest clock of all.
fn slow(gpu: &Gpu, window: &Window, fastest: f64) -> Option<Recommendation> {
    let clock = gpu.sensors.sm_clock_mhz.filter(|clock| *clock < SLOW * fastest)?;
    let others = window.gpus.iter().filter(|other| other.id != gpu.id && other.is_alike(gpu));
    let mut clocks: Vec<_> = others.filter_map(|other| other.sensors.sm_clock_mhz).collect();
    clocks.sort_by(f64::total_cmp);
    let median = *clocks.get(clocks.len() / 2)?;
    if clock >= SLOW * median {
        return None;
    }
    let rationale = format!(
        "While busy it runs at {} MHz, and others of this model at {} MHz. In one job, the slowest GPU \
         sets the pace.",
        decimal(clock, 0),
        decimal(median, 0),
    );
    Some(Recommendation {
        evidence: evidence([("clock", clock, "MHz"), ("clock.others", median, "MHz")]),
        ..risk(
            "health.straggler",
            "other",
            [gpu],
            [
                "Find out why this GPU is slower than the others",
                "Look at its cooling, its power supply and the reasons in nvidia-smi -q -d PERFORMANCE. \
                 Drain the node if they cannot be repaired.",
            ],
            rationale,
            SURE_SLOW,
        )
    })
}

phasemeter_policy::recommender!(Health);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory, with_power};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Health::recommend(&Settings::default(), &window(gpus)).recommendations
    }

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        recommendations(gpus).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn full_load_at_flat_low_power_hangs() {
        let hung = with_power(steady(3_600, 1.0), 125.0);
        let found = recommendations(vec![hung.clone(), hung.clone()]);
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.hang", 2));
        assert_eq!((found[0].kind, found[0].saving.high), (RecommendationKind::Risk, 0.0));
        let mut midway = hung.clone();
        midway.power[..300].fill(620.0);
        assert_eq!(codes(vec![midway.clone()]), ["health.hang"]);
        midway.power.reverse();
        assert!(codes(vec![midway]).is_empty(), "it has recovered");
        let mut moving = hung;
        moving.power.iter_mut().enumerate().for_each(|(i, power)| *power += (i % 2) as f64 * 40.0);
        assert!(codes(vec![moving]).is_empty(), "it computes");
        assert!(codes(vec![with_power(steady(3_600, 1.0), 300.0)]).is_empty());
        assert!(codes(vec![steady(3_600, 1.0)]).is_empty(), "without power");
    }

    #[test]
    fn job_of_slurm_is_requeued() {
        let remediation = |attributes| {
            let hung = with_power(steady(3_600, 1.0), 125.0);
            let window = Window { attributes, ..window(vec![hung]) };
            let found = Health::recommend(&Settings::default(), &window).recommendations;
            found[0].remediation.clone().unwrap()
        };
        let job = remediation(vec![("slurm.job.id".to_owned(), "4711".to_owned())]);
        assert_eq!(job.kind, "slurm.requeue");
        assert_eq!(job.parameters, [("job_id".to_owned(), "4711".to_owned())]);
        assert_eq!(remediation(Vec::new()).kind, "job.restart");
    }

    #[test]
    fn link_is_narrow_beside_a_wider_one_or_far_below_its_slot() {
        let linked = |lanes: f64, level: f64| {
            let mut gpu = steady(3_600, level);
            let metrics = [("pcie.link.width", lanes), ("pcie.link.max_width", 16.0)];
            gpu.metrics.extend(metrics.map(|(name, value)| (name.to_owned(), value)));
            gpu
        };
        assert_eq!(codes(vec![linked(8.0, 0.9), linked(16.0, 0.9)]), ["health.pcie"]);
        assert_eq!(codes(vec![linked(4.0, 0.9)]), ["health.pcie"]);
        assert!(codes(vec![linked(8.0, 0.9), linked(8.0, 0.9)]).is_empty(), "by design");
        assert!(codes(vec![linked(1.0, 0.0)]).is_empty(), "it may save power");
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
        assert!(codes(vec![with_memory(steady(3_600, 0.6), 77.3)]).is_empty());
    }

    #[test]
    fn capped_hot_and_slow_gpus_are_named() {
        let with_clock = |mhz: f64, celsius: f64| {
            let mut gpu = with_power(steady(3_600, 0.98), 450.0);
            gpu.sensors.sm_clock_mhz = Some(mhz);
            gpu.sensors.max_sm_clock_mhz = Some(1_980.0);
            gpu.sensors.temperature_celsius = Some(celsius);
            gpu
        };
        let healthy = || with_clock(1_960.0, 60.0);
        let found = recommendations(vec![healthy(), healthy(), with_clock(1_200.0, 60.0)]);
        assert_eq!((found[0].code.as_str(), &*found[0].gpus[0]), ("health.straggler", "GPU-2"));
        assert_eq!(codes(vec![with_clock(940.0, 88.0)]), ["health.heat"]);
        let capped = Gpu { power_limit_watts: Some(460.0), ..with_clock(1_450.0, 60.0) };
        let found = recommendations(vec![healthy(), capped.clone(), capped]);
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.power-limit", 2));
        assert_eq!(found.len(), 1);
        assert!(codes(vec![healthy(), healthy()]).is_empty());
    }

    #[test]
    fn lost_gpu_is_a_risk() {
        let metrics = vec![("lost.seconds".to_owned(), 3_600.0)];
        let lost = Gpu { metrics, ..steady(3_600, 0.9) };
        assert_eq!(codes(vec![lost, steady(3_600, 0.9)]), ["health.lost"]);
    }
}
