//! Missing columns, attributes and settings, and what they would tell.
//!
//! Nothing that was measured is asked for, and nothing that the GPU cannot measure.

use phasemeter_diagnoses::{
    Format, LITTLE_POWER, MATTERS, computes_in_fp64, does_usual_work, hangs, is_full, is_impaired,
    multiplies_matrices, power_share, share, units,
};
use phasemeter_policy::{Gpu, Need, Vendor, Window, Workload};

use crate::Settings;
use crate::load::{has_pool, is_idle_batch, is_large_session, is_part_load, is_undersampled};

/// Missing information: its name, what it would tell, and whether a GPU lacks it.
type Rule = (&'static str, &'static str, fn(&Gpu, &Window) -> bool);

const RULES: [Rule; 15] = [
    (
        "name",
        "the model decides on price, power limit and number formats; --gpu-model gives it",
        |gpu, _| gpu.model.is_empty(),
    ),
    (
        "price",
        "no price of this model is known, so its waste has no dollars: --price gives what is paid per GPU-hour",
        |gpu, _| gpu.price.is_none() && !gpu.model.is_empty(),
    ),
    (
        "provider",
        "the price is an estimate: --provider and --instance-type, or --price, give what is paid",
        |gpu, window| is_estimate(gpu, window) && !has_place(window),
    ),
    (
        "instance-type",
        "the price is an estimate over the instance types of this provider: --instance-type, or --price, gives \
         what is paid",
        |gpu, window| is_estimate(gpu, window) && has_place(window),
    ),
    (
        "memory.used",
        "memory in use decides on batch size, sharing and the size of the GPU",
        |gpu, _| gpu.memory.is_empty(),
    ),
    (
        "phasemeter.workload",
        "training, serving, interactive or batch: decides what its waits, its load and its idle time mean, such as larger \
         batches for training and more concurrent requests for a service",
        |gpu, window| {
            let lost = gpu.lost_idle() + gpu.lost_underload() + gpu.lost_starvation();
            let is_open = is_full(gpu) || lost >= MATTERS || is_undersampled(gpu, window);
            let is_used =
                gpu.accounts.busy().seconds > 0.0 || gpu.activity.quiet.held_seconds > 0.0;
            gpu.workload == Workload::Unknown && is_used && is_open
        },
    ),
    (
        "interval",
        "readings jump between idle and busy from one to the next, so a wait for input, a pause and an irregular \
         load look alike; one reading per second tells them apart",
        is_undersampled,
    ),
    ("power.draw", "power tells a job that hangs from one that computes", |gpu, _| {
        gpu.power.is_empty() && is_full(gpu) && gpu.full_share() >= share::NEARLY_ALL
    }),
    (
        "sm.activity",
        "utilization shows that a kernel runs, not how much of the GPU works: whether a full one at a quarter of its power limit, \
         or without recorded power, computes little, or hangs: dcgmi dmon -e 1002, or phasemeter run on Hopper and later",
        |gpu, window| {
            is_full(gpu)
                && is_nvidia(gpu)
                && power_share(gpu).is_none_or(|share| share <= LITTLE_POWER)
                && gpu.sensors.sm_activity.is_none()
                && !hangs(gpu, window)
        },
    ),
    (
        "fp64.activity",
        "tells a simulation in double precision, which no lower precision makes faster, from a model: record dcgmi dmon \
         -e 1002,1004,1006,1007",
        |gpu, window| may_be_no_model(gpu, window) && gpu.metric("fp64.activity").is_none(),
    ),
    (
        "fp32.activity",
        "tells arithmetic in single precision, which TF32 may make faster, from other work: record dcgmi dmon -e \
         1002,1004,1006,1007",
        |gpu, window| {
            may_be_no_model(gpu, window)
                && gpu.metric("fp64.activity").is_some()
                && gpu.metric("fp32.activity").is_none()
        },
    ),
    (
        "tensor.activity",
        "shows whether faster arithmetic would help, such as mixed precision: record dcgmi dmon -e 1002,1004,1005",
        |gpu, window| computes_freely(gpu, window) && gpu.sensors.tensor_activity.is_none(),
    ),
    (
        "requests",
        "requests per second, latency and the length of the queue show whether users wait, or traffic is missing",
        |gpu, _| {
            let is_open = gpu.full_share() >= share::NEARLY_ALL || gpu.is_bouncing();
            gpu.workload == Workload::Serving && is_open
        },
    ),
    (
        "memory_in_use",
        "the constant block may be preallocated: what is in use inside of it (torch.cuda.max_memory_allocated, or \
         the server's metrics) decides on batch, sharing and size",
        |gpu, window| {
            // Readings that are too far apart come first.
            (is_part_load(gpu, window) || is_large_session(gpu))
                && has_pool(gpu, window)
                && !is_undersampled(gpu, window)
                && !is_impaired(gpu, window)
        },
    ),
    (
        "video.engines",
        "a batch job with little load may use the video engines, which utilization does not \
      cover: record utilization.encoder and utilization.decoder",
        |gpu, _| {
            let is_measured = |name| gpu.metric(name).is_some();
            is_idle_batch(gpu)
                && !is_measured("encoder.utilization")
                && !is_measured("decoder.utilization")
        },
    ),
];

/// Whether it is full of arithmetic that may be in any format but FP64.
fn computes_freely(gpu: &Gpu, window: &Window) -> bool {
    is_full(gpu)
        && is_nvidia(gpu)
        && !computes_in_fp64(gpu)
        && power_share(gpu).is_none_or(|it| it > LITTLE_POWER)
        && does_usual_work(gpu, window)
}

/// Whether it computes, and neither its kind of work, nor a framework or a declared format shows in which format: the
/// pipes that are active do.
fn may_be_no_model(gpu: &Gpu, window: &Window) -> bool {
    matches!(gpu.workload, Workload::Batch | Workload::Unknown)
        && computes_freely(gpu, window)
        && !multiplies_matrices(gpu, window)
        && Format::declared(gpu, window).is_none()
}

/// Whether the price is an estimate, and the offers do not show that it is the only one there.
fn is_estimate(gpu: &Gpu, window: &Window) -> bool {
    let Some(price) = gpu.price.as_ref().filter(|price| price.estimated) else { return false };
    let here = window.offers.iter().filter(|offer| {
        let other = &offer.price;
        let place = (&other.provider, &other.region, other.plan);
        offer.model == gpu.model && place == (&price.provider, &price.region, price.plan)
    });
    let prices: Vec<_> = here.map(|offer| offer.price.nano_usd_per_gpu_hour).collect();
    prices.is_empty() || prices.iter().any(|other| *other != price.nano_usd_per_gpu_hour)
}

/// Whether the provider was given: offers are of known providers.
fn has_place(window: &Window) -> bool {
    !window.offers.is_empty()
}

pub(crate) fn needs(settings: &Settings, window: &Window) -> Vec<Need> {
    let of = |missing, reason, lacks: &dyn Fn(&Gpu) -> bool| {
        Need::if_any(missing, reason, window.gpus.iter().filter(|gpu| lacks(gpu)))
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
        "time without a reading is billed, and what it was spent on is unknown: the logger stopped or was late (phasemeter \
         run, or a service manager, starts it again), or the node was gone, as after scaling down, and is not billed then",
        &|gpu| is_large(gpu, unrecorded(gpu)),
    );
    let lacks_values = |gpu: &Gpu| is_large(gpu, unobserved(gpu) - unrecorded(gpu));
    let activity = of(
        "sm.activity",
        "utilization is never reported in MIG mode, and the activity of the whole GPU does not show which part is \
         idle: dcgmi dmon -e 1001,1002, or phasemeter run on Hopper and later, record that of each part",
        &|gpu| lacks_values(gpu) && is_nvidia(gpu) && is_divided(gpu),
    );
    let utilization = of(
        "utilization.gpu",
        "what time without a value of utilization was spent on is unknown: nvidia-smi --query-gpu=utilization.gpu \
         records it, or, if the GPU is in MIG mode, dcgmi dmon -e 1001,1002 the activity of each part",
        &|gpu| lacks_values(gpu) && is_nvidia(gpu) && !is_divided(gpu),
    );
    let other = of(
        "utilization",
        "what time without a value of utilization was spent on is unknown",
        &|gpu| lacks_values(gpu) && !is_nvidia(gpu),
    );
    let short = of(
        "duration",
        "so short a run may be the start of a longer one: an hour shows its usual load",
        &|gpu| observed(gpu) > 0.0 && observed(gpu) < settings.min_seconds,
    );
    let units = units(window);
    let is_of_part = |gpu: &Gpu| {
        let free = gpu.activity.ten_minutes_seconds;
        free > 0.0
            && free >= share::HARDLY_ANY * observed(gpu)
            && units.iter().any(|unit| !unit.is_whole && unit.holds(gpu))
    };
    let others = of(
        "other_gpus",
        "the instance has more GPUs than were recorded: whether it can be given back depends on all of them",
        &is_of_part,
    );
    let rules = RULES.iter().filter_map(|(missing, reason, lacks)| {
        of(missing, reason, &|gpu| observed(gpu) > 0.0 && lacks(gpu, window))
    });
    let unobserved = [readings, activity, utilization, other, short, others];
    unobserved.into_iter().flatten().chain(rules).collect()
}

/// Whether the tools that texts name are those of its vendor.
fn is_nvidia(gpu: &Gpu) -> bool {
    gpu.vendor() == Vendor::Nvidia
}

/// Whether it is in MIG mode: then the driver never reports its utilization.
fn is_divided(gpu: &Gpu) -> bool {
    gpu.attribute("phasemeter.gpu.mig.profiles").is_some()
        || gpu.attribute("phasemeter.gpu.mig.mode") == Some("enabled")
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{
        bouncing, gpu, price, steady, window, with_memory, with_power,
    };
    use phasemeter_policy::{PatternKind, Price};

    use super::*;

    fn names_in(window: &Window) -> Vec<String> {
        needs(&Settings::default(), window).into_iter().map(|need| need.missing).collect()
    }

    fn missing(gpu: Gpu) -> Vec<String> {
        names_in(&window(vec![gpu]))
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
        let session = |every: usize| {
            let load = gpu(
                PatternKind::Idle,
                7_200,
                move |second| {
                    if second % every < 6 { 0.9 } else { 0.0 }
                },
            );
            let gpu = Gpu { workload: Workload::Interactive, ..with_power(load, 100.0) };
            missing(with_memory(gpu, 60.0)).contains(&"memory_in_use".to_owned())
        };
        assert!(session(300));
        assert!(!session(3_600), "hardly used: end it");
        assert_eq!(
            missing(Gpu { workload: Workload::Unknown, ..whole(0.5) }),
            ["phasemeter.workload"]
        );
        let full = Gpu { workload: Workload::Serving, ..whole(0.97) };
        assert_eq!(missing(full), ["tensor.activity", "requests"]);
        let bursts = with_memory(bouncing(3_600, 40, 0.3), 20.0);
        assert_eq!(missing(Gpu { workload: Workload::Serving, ..bursts }), ["requests"]);
    }

    #[test]
    fn measured_columns_are_not_asked_for() {
        let mut full = whole(0.97);
        full.sensors.tensor_activity = Some(0.4);
        assert!(missing(full).is_empty());
        let mut batch = with_memory(gpu(PatternKind::Idle, 3_600, |_| 0.05), 2.0);
        batch.workload = Workload::Batch;
        assert_eq!(missing(batch.clone()), ["video.engines"]);
        batch.metrics.push(("decoder.utilization".to_owned(), 0.3));
        assert!(missing(batch).is_empty());
    }

    /// Scenario: full GPUs whose work may be a simulation, or not.
    /// Guarantee: the pipes are asked for, one after the other, until something shows the format.
    #[test]
    fn pipes_are_asked_for_while_the_format_is_unknown() {
        let with = |workload, pipes: &[(&str, f64)], attribute: Option<(&str, &str)>| {
            let mut gpu = Gpu { workload, ..whole(0.97) };
            gpu.sensors.tensor_activity = Some(0.1);
            gpu.metrics.extend(pipes.iter().map(|(name, of)| ((*name).to_owned(), *of)));
            let mut window = window(vec![gpu]);
            window.attributes =
                attribute.map(|(name, of)| (name.to_owned(), of.to_owned())).into_iter().collect();
            let all = names_in(&window);
            all.into_iter().find(|name| name.starts_with("fp")).unwrap_or_default()
        };
        for workload in [Workload::Batch, Workload::Unknown] {
            assert_eq!(with(workload, &[], None), "fp64.activity");
            assert_eq!(with(workload, &[("fp64.activity", 0.0)], None), "fp32.activity");
            let both = [("fp64.activity", 0.0), ("fp32.activity", 0.4)];
            assert_eq!(with(workload, &both, None), "");
            assert_eq!(with(workload, &[("fp64.activity", 0.3)], None), "", "it is FP64");
            for known in ["phasemeter.precision", "phasemeter.framework"] {
                let value = if known.ends_with("precision") { "fp32" } else { "pytorch" };
                assert_eq!(with(workload, &[], Some((known, value))), "", "{known}");
            }
        }
        assert_eq!(with(Workload::Training, &[], None), "");
        assert_eq!(with(Workload::Serving, &[], None), "");
    }

    #[test]
    fn only_what_is_missing_of_a_price_is_asked_for() {
        let estimated = || Price { estimated: true, ..price() };
        let mut known = window(vec![Gpu { price: Some(estimated()), ..whole(0.5) }]);
        assert_eq!(names_in(&known), ["instance-type"], "offers of the same place differ");
        known.offers.truncate(1);
        assert!(names_in(&known).is_empty(), "all offers have this price");
        known.offers.clear();
        assert_eq!(names_in(&known), ["provider"]);
    }

    #[test]
    fn divided_gpus_need_activity() {
        let unobserved = |profiles: &[(&str, &str)], model: &str| {
            let mut gpu = with_memory(gpu(PatternKind::Idle, 3_600, |_| f64::NAN), 20.0);
            gpu.model = model.to_owned();
            let profiles = profiles.iter().map(|(name, of)| ((*name).to_owned(), (*of).to_owned()));
            gpu.attributes = profiles.collect();
            missing(gpu)
        };
        let h100 = "NVIDIA H100 80GB HBM3";
        let divided = unobserved(&[("phasemeter.gpu.mig.profiles", "1g.10gb")], h100);
        assert_eq!(divided, ["sm.activity"]);
        assert_eq!(unobserved(&[], h100), ["utilization.gpu"], "it may be");
        let mode = |mode| unobserved(&[("phasemeter.gpu.mig.mode", mode)], h100);
        assert_eq!(mode("enabled"), ["sm.activity"]);
        assert_eq!(mode("disabled"), ["utilization.gpu"], "it was not recorded");
        assert_eq!(unobserved(&[], "NVIDIA L40S"), ["utilization.gpu"], "it has no MIG");
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
        assert_eq!(missing(mixed.clone()), ["interval"]);
        mixed.workload = Workload::Unknown;
        assert_eq!(missing(mixed), ["phasemeter.workload", "interval"], "the kind decides first");
    }
}
