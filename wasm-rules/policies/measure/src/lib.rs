//! Names missing information, and what a profile would decide.
//!
//! A need is given instead of a recommendation that would be a guess: which column, attribute or setting
//! is missing, for which GPUs, and what it would tell.

use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Gpu, Need, PatternKind, Policy, Recommendation, Recommender, Response, Target, Window,
    Workload, evidence,
};
use phasemeter_specs::{Unit, hangs, is_slowed, units};

phasemeter_policy::settings! {
    /// Observed time below which a run is too short to judge, in seconds.
    min_seconds: number = 1790.0 in 0.0..=86400.0;
    /// Share of unobserved time from which it is missing.
    max_unobserved: number = 0.2 in 0.0..=1.0;
}

/// Confidence in a profile of a full GPU at low power, and of one at part load. Assumptions.
const SURE_BUSY: f64 = 0.7;
const SURE_PART: f64 = 0.5;

/// Utilization from which a GPU works, as the phases define it.
const WORKS: f64 = 0.1;

/// Share of the time without work from which a batch job is idle, and of that time in long stretches from
/// which the load is in stages. Assumptions.
const QUIET: f64 = 0.5;
const LONG_STRETCHES: f64 = 0.5;

/// Interval between readings from which cycles cannot be seen, in seconds. An assumption: waits for input
/// last up to some ten seconds.
const SLOW_SECONDS: f64 = 10.0;

/// Compute-bound share of the time from which a GPU is full.
const FULL: f64 = 0.5;

/// Utilization of a full point.
const FULL_UTILIZATION: f64 = 0.9;

/// Share of the time in stretches of ten minutes without work, from which giving back an instance is worth a
/// question. An assumption.
const FREE: f64 = 0.1;

/// The same for a service without a reserve.
const NO_RESERVE: f64 = 0.9;

/// Power of a full GPU, as a share of its limit, below which arithmetic is not its limit, and below
/// which it may compute nothing.
const LOW_POWER: f64 = 0.55;
const HUNG_POWER: f64 = 0.25;

/// Utilization below which there is something to gain.
const PRODUCTIVE: f64 = 0.7;

struct Measure;

impl Policy for Measure {
    const NAME: &'static str = "measure";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Names missing information, and what a profile would decide.";
    type Settings = Settings;
}

impl Recommender for Measure {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        Response { recommendations: profiles(settings, window), needs: needs(settings, window) }
    }
}

/// Missing information: its name, what it would tell, and whether a GPU lacks it.
type Rule = (&'static str, &'static str, fn(&Gpu, &Window) -> bool);

const RULES: [Rule; 11] = [
    (
        "name",
        "the model decides on price, power limit and number formats; --gpu-model gives it",
        |gpu, _| gpu.model.is_empty(),
    ),
    (
        "provider",
        "the price is an estimate over several clouds: --provider and --instance-type, or --price, \
      give what is paid",
        |gpu, _| gpu.price.as_ref().is_some_and(|price| price.estimated),
    ),
    (
        "memory.used",
        "memory in use decides on batch size, sharing and the size of the GPU",
        |gpu, _| gpu.memory.is_empty(),
    ),
    (
        "interval",
        "at this interval a wait for input, a pause and an irregular load look alike; one reading \
      per second tells them apart",
        |gpu, _| is_undersampled(gpu),
    ),
    ("power.draw", "power tells a job that hangs from one that computes", |gpu, _| {
        is_flat(gpu) && gpu.power.is_empty()
    }),
    (
        "sm.activity",
        "a GPU that is full at a quarter of its power limit computes little, or hangs: activity of its SMs \
      (GPM or DCGM) tells which",
        |gpu, window| {
            is_full(gpu)
                && power_share(gpu).is_some_and(|share| share <= HUNG_POWER)
                && gpu.sensors.sm_activity.is_none()
                && !hangs(gpu, window)
        },
    ),
    (
        "tensor.activity",
        "tensor activity (GPM or DCGM) shows whether arithmetic is the limit, and whether \
      it could be faster",
        |gpu, _| {
            is_full(gpu)
                && gpu.sensors.tensor_activity.is_none()
                && power_share(gpu).is_none_or(|it| it > HUNG_POWER)
        },
    ),
    (
        "requests",
        "latency and the length of the queue show whether users already wait",
        |gpu, _| gpu.workload == Workload::Serving && share_full(gpu) >= NO_RESERVE,
    ),
    (
        "phasemeter.workload",
        "the kind of workload decides between larger batches for training and more \
      concurrent requests for a service",
        |gpu, _| gpu.workload == Workload::Unknown && (is_part_load(gpu) || gpu.is_bouncing()),
    ),
    (
        "memory_in_use",
        "the constant block is preallocated: memory in use inside of it, as the framework or \
      the server reports it, decides on batch, sharing and size",
        |gpu, window| is_part_load(gpu) && gpu.memory_use(window.step_seconds).is_pool(),
    ),
    (
        "video.engines",
        "a batch job with little load may use the video engines, which utilization does not \
      cover: record utilization.encoder and utilization.decoder",
        |gpu, _| is_idle_batch(gpu),
    ),
];

fn needs(settings: &Settings, window: &Window) -> Vec<Need> {
    let of = |missing, reason, lacks: &dyn Fn(&Gpu) -> bool| {
        let gpus: Vec<_> = window.gpus.iter().filter(|gpu| lacks(gpu)).collect();
        (!gpus.is_empty()).then(|| Need::new(missing, reason, gpus))
    };
    let observed = |gpu: &Gpu| gpu.accounts.observed().seconds;
    let unobserved = |gpu: &Gpu| gpu.accounts.unobserved.seconds;
    let unrecorded =
        |gpu: &Gpu| gpu.metric("unrecorded.seconds").unwrap_or(0.0).min(unobserved(gpu));
    let is_large = |gpu: &Gpu, part: f64| {
        part > settings.max_unobserved * (unobserved(gpu) + observed(gpu))
            && gpu.metric("lost.seconds").is_none()
    };
    let readings = of(
        "readings",
        "time without a reading is billed, and what it was spent on is unknown: the logger stopped or was \
         late; phasemeter run, or a service manager, starts it again",
        &|gpu| is_large(gpu, unrecorded(gpu)),
    );
    let utilization = of(
        "utilization.gpu",
        "time without a value of utilization is billed, and what it was spent on is unknown; in MIG mode \
         only profiling metrics (sm.activity of GPM or DCGM) show it",
        &|gpu| is_large(gpu, unobserved(gpu) - unrecorded(gpu)),
    );
    let short = of(
        "duration",
        "so short a run may be the start of a longer one: an hour shows its usual load",
        &|gpu| observed(gpu) > 0.0 && observed(gpu) < settings.min_seconds,
    );
    let units = units(window);
    let is_of_part = |gpu: &Gpu| {
        let own = |unit: &&Unit<'_>| unit.gpus.iter().any(|own| std::ptr::eq(*own, gpu));
        let is_free = gpu.activity.ten_minutes_seconds >= FREE * observed(gpu);
        is_free && units.iter().filter(|unit| !unit.is_whole).any(|it| own(&it))
    };
    let others = of(
        "other_gpus",
        "the instance has more GPUs than were recorded: whether it can be given back depends on all of them",
        &is_of_part,
    );
    let rules = RULES.iter().filter_map(|(missing, reason, lacks)| {
        of(missing, reason, &|gpu| observed(gpu) > 0.0 && lacks(gpu, window))
    });
    readings.into_iter().chain(utilization).chain(short).chain(others).chain(rules).collect()
}

/// What a profile would decide.
fn profiles(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
    let of = |chosen: &dyn Fn(&Gpu) -> bool| -> Vec<&Gpu> {
        window.gpus.iter().filter(long).filter(|gpu| chosen(gpu)).collect()
    };
    let busy = of(&|gpu| {
        is_full(gpu)
            && gpu.workload != Workload::Serving
            && power_share(gpu).is_some_and(|share| (HUNG_POWER..LOW_POWER).contains(&share))
            && gpu.sensors.tensor_activity.is_none()
            && !is_slowed(gpu)
    });
    let unclear = of(&|gpu| {
        let unknown = gpu.workload == Workload::Unknown && (gpu.is_bouncing() || is_part_load(gpu));
        let batch = gpu.workload == Workload::Batch && (is_part_load(gpu) || is_idle_batch(gpu));
        unknown || batch
    });
    let draft = |code, gpus: Vec<&Gpu>, rationale: String, values, confidence| {
        (!gpus.is_empty()).then(|| Recommendation {
            title: "Profile a few steps".to_owned(),
            action:
                "Run nsys profile -t cuda,nvtx,osrt --duration=30, or PyTorch's profiler over ten \
                     steps, and look at what the GPU waits for between and inside kernels."
                    .to_owned(),
            rationale,
            confidence,
            evidence: values,
            ..Recommendation::new(code, Target::Throughput, "measure", gpus)
        })
    };
    let average = |gpus: &[&Gpu], value: &dyn Fn(&Gpu) -> f64| {
        gpus.iter().map(|gpu| value(gpu)).sum::<f64>() / gpus.len().max(1) as f64
    };
    let power = average(&busy, &|gpu| power_share(gpu).unwrap_or(0.0));
    let bound = draft(
        "measure.busy-at-low-power",
        busy.clone(),
        format!(
            "{} is fully busy at {} of its power limit: it is bound by memory, by communication or by \
             launches, not by arithmetic. A profile tells which.",
            subject(busy.len()),
            percent(power),
        ),
        evidence([("power.share_of_limit", power, "1")]),
        SURE_BUSY,
    );
    let level = average(&unclear, &|gpu| gpu.accounts.observed().level());
    let cause = draft(
        "measure.part-load",
        unclear.clone(),
        format!(
            "{} is {} busy, and what it waits for is not visible here: input, launches, the CPU or work.",
            subject(unclear.len()),
            percent(level),
        ),
        evidence([("utilization", level, "1")]),
        SURE_PART,
    );
    bound.into_iter().chain(cause).collect()
}

fn share_full(gpu: &Gpu) -> f64 {
    gpu.share(|accounts| accounts.compute_bound)
}

fn is_full(gpu: &Gpu) -> bool {
    share_full(gpu) >= FULL && !gpu.is_bouncing()
}

/// Whether it is fully busy all the time.
fn is_flat(gpu: &Gpu) -> bool {
    is_full(gpu) && percentile(&gpu.utilization, 5).is_some_and(|level| level >= FULL_UTILIZATION)
}

fn is_steady(gpu: &Gpu) -> bool {
    gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady)
}

fn is_part_load(gpu: &Gpu) -> bool {
    is_steady(gpu) && (WORKS..PRODUCTIVE).contains(&gpu.accounts.observed().level())
}

/// A batch job that seems to do nothing, but is never quiet.
fn is_idle_batch(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Batch
        && gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Idle)
        && gpu.quiet_share() < QUIET
}

/// An irregular load whose readings are too far apart to see its cycles.
fn is_undersampled(gpu: &Gpu) -> bool {
    let mixed = gpu
        .pattern
        .is_some_and(|pattern| matches!(pattern.kind, PatternKind::Mixed | PatternKind::Bouncing));
    let long = gpu.activity.ten_minutes_seconds > LONG_STRETCHES * gpu.activity.quiet.seconds;
    mixed
        && !long
        && gpu.workload != Workload::Serving
        && gpu.activity.interval_seconds.is_some_and(|interval| interval > SLOW_SECONDS)
}

/// Median power while the GPU is full, as a share of its limit.
fn power_share(gpu: &Gpu) -> Option<f64> {
    let points = gpu.utilization.iter().zip(&gpu.power);
    let full = points.filter(|(utilization, _)| **utilization >= FULL_UTILIZATION);
    let full: Vec<_> = full.map(|(_, power)| *power).collect();
    Some(percentile(&full, 50)? / gpu.power_limit_watts.filter(|limit| *limit > 0.0)?)
}

phasemeter_policy::recommender!(Measure);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory, with_power};

    use super::*;

    fn respond(gpus: Vec<Gpu>) -> Response {
        Measure::recommend(&Settings::default(), &window(gpus))
    }

    fn missing(gpu: Gpu) -> Vec<String> {
        respond(vec![gpu]).needs.into_iter().map(|need| need.missing).collect()
    }

    fn whole(level: f64) -> Gpu {
        with_power(with_memory(steady(3_600, level), 20.0), 600.0)
    }

    #[test]
    fn missing_columns_and_settings_are_named() {
        assert!(missing(whole(0.5)).is_empty());
        assert_eq!(missing(Gpu { memory: Vec::new(), ..whole(0.5) }), ["memory.used"]);
        assert_eq!(missing(Gpu { model: String::new(), ..whole(0.5) }), ["name"]);
        assert_eq!(
            missing(Gpu { power: Vec::new(), ..whole(1.0) }),
            ["power.draw", "tensor.activity"]
        );
        assert_eq!(missing(with_memory(whole(0.5), 60.0)), ["memory_in_use"]);
        assert_eq!(
            missing(Gpu { workload: Workload::Unknown, ..whole(0.5) }),
            ["phasemeter.workload"]
        );
        let full = Gpu { workload: Workload::Serving, ..whole(0.97) };
        assert_eq!(missing(full), ["tensor.activity", "requests"]);
    }

    #[test]
    fn short_and_unobserved_runs_are_named() {
        let short = with_memory(steady(600, 0.5), 20.0);
        assert_eq!(missing(short), ["duration"]);
        let gaps =
            gpu(PatternKind::Steady, 7_200, |second| if second < 3_600 { 0.5 } else { f64::NAN });
        let mut gaps = with_memory(gaps, 20.0);
        assert_eq!(missing(gaps.clone()), ["utilization.gpu"]);
        gaps.metrics.push(("unrecorded.seconds".to_owned(), 3_600.0));
        assert_eq!(missing(gaps), ["readings"]);
    }

    #[test]
    fn slow_sampling_of_an_irregular_load_is_named() {
        let mut mixed = with_memory(
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second / 60 % 3 == 0))),
            20.0,
        );
        assert!(missing(mixed.clone()).is_empty());
        mixed.activity.interval_seconds = Some(60.0);
        assert_eq!(missing(mixed), ["interval"]);
    }

    #[test]
    fn profile_is_recommended_if_it_decides() {
        let codes = |gpu| -> Vec<_> {
            respond(vec![gpu]).recommendations.into_iter().map(|one| one.code).collect()
        };
        assert_eq!(codes(with_power(whole(0.99), 290.0)), ["measure.busy-at-low-power"]);
        assert!(codes(with_power(whole(0.99), 125.0)).is_empty(), "it may hang");
        assert!(codes(with_power(whole(0.99), 650.0)).is_empty());
        let unknown = Gpu { workload: Workload::Unknown, ..bouncing(3_600, 40, 0.5) };
        assert_eq!(codes(unknown), ["measure.part-load"]);
        assert!(codes(whole(0.5)).is_empty());
    }
}
