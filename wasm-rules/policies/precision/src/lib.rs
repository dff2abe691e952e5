//! Recommends faster arithmetic for compute-bound GPUs.
//!
//! Lower precision raises throughput rather than reducing waste, as far as the architecture supports
//! it. Utilization does not reveal a job's precision, so tensor activity must be measured. Without
//! tensor cores in use, matrix products most likely run in FP32: TF32 comes first, then 16 bits.

use phasemeter_policy::column::mean;
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::log;
use phasemeter_policy::{
    Account, Effort, Evidence, Gpu, Policy, Recommendation, Recommender, Remediation, Response,
    Saving, Target, Window, Workload, groups,
};
use phasemeter_specs::{Architecture, Model};

phasemeter_policy::settings! {
    /// Minimum compute-bound share of observed time.
    min_compute_bound: number = 0.5 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Power, as a share of the limit, from which it confirms a compute-bound load. An assumption.
const COMPUTING_POWER: f64 = 0.6;

/// Confidence in faster formats. An assumption.
const SURE: f64 = 0.7;

/// Tensor activity from which a job already runs mostly on tensor cores. Efficient mixed-precision
/// training reaches 0.4 and more.
const MIN_TENSOR_ACTIVITY: f64 = 0.25;

/// Tensor activity up to which the tensor cores are unused.
const UNUSED: f64 = 0.02;

/// SM activity below which most SMs wait, and use of the memory bandwidth from which it is the limit.
/// Assumptions, as in `sizing`.
const ACTIVE_SMS: f64 = 0.4;
const FULL_BANDWIDTH: f64 = 0.6;

/// Peak of TF32 relative to 16 bits, dense (NVIDIA's datasheets of A100 and H100).
const TF32_SHARE: f64 = 0.5;

/// Share of the time in matrix products, the only part that gets faster: low, expected, high. An
/// assumption; it bounds the gain by Amdahl's law.
const MATMUL_SHARE: [f64; 3] = [0.2, 0.4, 0.6];

struct Precision;

impl Policy for Precision {
    const NAME: &'static str = "precision";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds compute-bound GPUs, and recommends faster arithmetic that they support.";
    type Settings = Settings;
}

/// A change to faster arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    code: &'static str,
    lever: &'static str,
    title: &'static str,
    action: &'static str,
    /// Formats before and after the change, for people.
    from: &'static str,
    to: &'static str,
    /// Ratio of the peaks.
    speedup: f64,
}

/// A change for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    model: &'static Model,
    tensor: f64,
    change: Change,
}

impl Recommender for Precision {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let mut findings = Vec::new();
        for gpu in window.observed_gpus(settings.min_seconds) {
            let bound = gpu.share(|accounts| accounts.compute_bound) >= settings.min_compute_bound;
            // A GPU that waits for input would only wait longer.
            let trains = matches!(gpu.workload, Workload::Training | Workload::Batch);
            if !bound || !trains || gpu.is_bouncing() {
                continue;
            }
            let Some(tensor) = gpu.sensors.tensor_activity else { continue };
            if !arithmetic_limits(gpu) {
                continue;
            }
            let Some(model) = Model::of(&gpu.model) else {
                log::info(
                    &[
                        &*gpu.name(),
                        " is compute-bound, but its model is unknown: no precision recommended",
                    ]
                    .concat(),
                );
                continue;
            };
            let changes = changes(model, tensor).into_iter();
            findings.extend(changes.map(|change| Finding { gpu, model, tensor, change }));
        }
        let similar = |a: &Finding<'_>, b: &Finding<'_>| a.model == b.model && a.change == b.change;
        let groups = groups(findings, similar);
        groups.iter().filter_map(|group| recommend(group)).collect::<Vec<_>>().into()
    }
}

/// Whether arithmetic can be the limit, as far as activity was measured: few active SMs wait for launches or
/// for other GPUs, and at full memory bandwidth for bytes.
fn arithmetic_limits(gpu: &Gpu) -> bool {
    let sensors = &gpu.sensors;
    sensors.sm_activity.is_none_or(|sm| sm >= ACTIVE_SMS)
        && sensors.dram_activity.is_none_or(|dram| dram < FULL_BANDWIDTH)
}

/// Returns the next changes, safest first: to TF32 and to 16 bits if the tensor cores are not in use,
/// else to 8 bits, as far as the model supports them.
fn changes(model: &Model, tensor: f64) -> Vec<Change> {
    let half = model.bf16_tflops.or(model.fp16_tflops);
    let speedup =
        |fast: Option<f64>, slow: Option<f64>| Some(fast? / slow?).filter(|ratio| *ratio > 1.0);
    if tensor >= MIN_TENSOR_ACTIVITY {
        let to_fp8 = speedup(model.fp8_tflops, half).map(|speedup| Change {
            code: "precision.fp8",
            lever: "fp8",
            title: "Try FP8 for matrix products",
            action: "Run linear layers in FP8, with Transformer Engine or torchao, and compare the loss \
                     over some thousand steps.",
            from: "16 bits",
            to: "FP8",
            speedup,
        });
        return to_fp8.into_iter().collect();
    }
    if tensor > UNUSED || model.architecture < Architecture::Volta {
        return Vec::new();
    }
    let has_tf32 = model.architecture >= Architecture::Ampere;
    let tf32 = half.map(|half| half * TF32_SHARE);
    let to_tf32 = speedup(tf32, model.fp32_tflops).filter(|_| has_tf32).map(|speedup| Change {
        code: "precision.tf32",
        lever: "tf32",
        title: "Enable TF32 for matrix products",
        action: "Set torch.set_float32_matmul_precision(\"high\"): matrix products then use the tensor \
                 cores. No other code changes.",
        from: "FP32",
        to: "TF32",
        speedup,
    });
    // Compared with TF32, which is one setting.
    let slow = if has_tf32 { tf32 } else { model.fp32_tflops };
    let to_half = speedup(half, slow).map(|speedup| {
        if has_tf32 {
            Change {
                code: "precision.bf16",
                lever: "bf16",
                title: "Train in BF16",
                action: "Use autocast with bfloat16, keep master weights in FP32, and compare the loss \
                         over a few thousand steps.",
                from: "TF32",
                to: "BF16",
                speedup,
            }
        } else {
            Change {
                code: "precision.amp",
                lever: "amp",
                title: "Use mixed precision",
                action: "Turn on automatic mixed precision: FP16 with loss scaling. This architecture \
                         does not support BF16.",
                from: "FP32",
                to: "FP16 on tensor cores",
                speedup,
            }
        }
    });
    to_tf32.into_iter().chain(to_half).collect()
}

/// Recommends a change for GPUs of the same model.
fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let Finding { change, model, tensor, .. } = group.first()?;
    let average =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let bound = |gpu: &Gpu| share_of_bill(gpu, gpu.accounts.compute_bound);
    let gain = MATMUL_SHARE.map(|share| share * (1.0 - 1.0 / change.speedup));
    // A trial shows whether accuracy allows it.
    let gain = [0.0, gain[1], gain[2]];
    let level = average(|f| f.gpu.accounts.compute_bound.level());
    let time = average(|f| f.gpu.share(|accounts| accounts.compute_bound));
    let mut evidence = vec![
        Evidence::new("compute_bound.share_of_time", time, "1"),
        Evidence::new("compute_bound.utilization", level, "1"),
        Evidence::new("peak.speedup", change.speedup, "1"),
    ];
    let mut rationale = format!(
        "{} is compute-bound {} of the time, at {} utilization. The peak of {} is {}× as high in {} \
         as in {}. Only matrix products get faster: 20–60% of the time is assumed. ",
        subject(group.len()),
        percent(time),
        percent(level),
        model.name,
        decimal(change.speedup, 1),
        change.to,
        change.from,
    );
    let watts = group.iter().filter_map(|f| Some(mean(&f.gpu.power)? / f.gpu.power_limit_watts?));
    if let Some(share) = watts.reduce(f64::min) {
        evidence.push(Evidence::new("power.share_of_limit", share, "1"));
        let meaning = if share >= COMPUTING_POWER {
            " of the limit, which confirms a compute-bound load. "
        } else {
            " of the limit, so the load may be memory-bound instead. "
        };
        rationale += &["Power draw is ", &percent(share), meaning].concat();
    }
    evidence.push(Evidence::new("tensor.activity", *tensor, "1"));
    rationale += &["Tensor cores were ", &percent(*tensor), " active."].concat();
    Some(Recommendation {
        title: change.title.to_owned(),
        action: change.action.to_owned(),
        rationale,
        saving: Saving::combined(group.iter().map(|f| (f.gpu, Saving::part(bound(f.gpu), gain)))),
        confidence: average(|f| f.gpu.confidence()) * SURE,
        evidence,
        effort: if change.lever == "tf32" { Effort::Low } else { Effort::Medium },
        // The other changes are in the code of the job.
        remediation: (change.lever == "tf32").then(|| {
            let name = ("name", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE".to_owned());
            Remediation::new("env.set", [name, ("value", "1".to_owned())])
        }),
        ..Recommendation::new(
            change.code,
            Target::Throughput,
            change.lever,
            group.iter().map(|f| f.gpu),
        )
    })
}

/// Returns an account's share of the bill, or of the time if the GPU is unpriced.
fn share_of_bill(gpu: &Gpu, account: Account) -> f64 {
    let part = if gpu.price.is_some() { account.cost as f64 } else { account.seconds };
    if gpu.weight() > 0.0 { part / gpu.weight() } else { 0.0 }
}

phasemeter_policy::recommender!(Precision);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, steady, window, with_power};

    use super::*;

    fn recommendations(gpu: Gpu) -> Vec<Recommendation> {
        Precision::recommend(&Settings::default(), &window(vec![gpu])).recommendations
    }

    fn gpu(model: &str, tensor: f64) -> Gpu {
        let mut gpu = Gpu { model: model.to_owned(), ..steady(3_600, 0.97) };
        gpu.sensors.tensor_activity = Some(tensor);
        gpu
    }

    fn levers(gpu: Gpu) -> Vec<String> {
        recommendations(gpu).into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn changes_depend_on_architecture() {
        for (model, expected) in [
            ("Tesla P100-PCIE-16GB", &[][..]),
            ("Tesla V100-SXM2-16GB", &["amp"]),
            ("Tesla T4", &["amp"]),
            ("NVIDIA A100-SXM4-80GB", &["tf32", "bf16"]),
            ("NVIDIA H100 80GB HBM3", &["tf32", "bf16"]),
            ("unknown", &[]),
        ] {
            assert_eq!(levers(gpu(model, 0.0)), expected, "{model}");
        }
    }

    #[test]
    fn tensor_activity_selects_the_change() {
        assert_eq!(levers(gpu("NVIDIA H100 80GB HBM3", 0.6)), ["fp8"]);
        assert!(levers(gpu("NVIDIA H100 80GB HBM3", 0.1)).is_empty(), "partly in use: profile it");
        assert!(levers(gpu("NVIDIA A100-SXM4-80GB", 0.6)).is_empty(), "an A100 has no FP8");
        let mut unmeasured = gpu("NVIDIA H100 80GB HBM3", 0.0);
        unmeasured.sensors.tensor_activity = None;
        assert!(levers(unmeasured).is_empty());
        let found = recommendations(gpu("NVIDIA H100 80GB HBM3", 0.0));
        assert!(found.iter().all(|one| one.saving.low == 0.0 && one.saving.high > 0.0));
        let is_set = |one: &Recommendation| one.remediation.is_some();
        assert_eq!(
            found.iter().map(is_set).collect::<Vec<_>>(),
            [true, false],
            "TF32 is a variable"
        );
    }

    #[test]
    fn arithmetic_must_be_the_limit() {
        let with = |sm, dram| {
            let mut gpu = gpu("NVIDIA H100 80GB HBM3", 0.0);
            (gpu.sensors.sm_activity, gpu.sensors.dram_activity) = (Some(sm), Some(dram));
            levers(gpu)
        };
        assert_eq!(with(0.9, 0.3), ["tf32", "bf16"]);
        assert!(with(0.9, 0.85).is_empty(), "memory bandwidth is");
        assert!(with(0.2, 0.1).is_empty(), "launches are");
    }

    #[test]
    fn gain_is_bounded_by_matmul_share() {
        // FP8 is twice as fast as BF16, so half of 0.4 is saved; the whole bill is compute-bound.
        let found = recommendations(gpu("NVIDIA H100 80GB HBM3", 0.6));
        assert!((found[0].saving.expected - 0.2).abs() < 1e-3, "{:?}", found[0].saving);
        assert_eq!(found[0].target, Target::Throughput);
    }

    #[test]
    fn rationale_mentions_power_if_recorded() {
        let with = recommendations(with_power(gpu("NVIDIA H100 80GB HBM3", 0.6), 650.0));
        assert!(
            with[0].rationale.contains("confirms a compute-bound load"),
            "{}",
            with[0].rationale
        );
        let without = recommendations(gpu("NVIDIA H100 80GB HBM3", 0.6));
        assert!(!without[0].rationale.contains("Power"));
    }

    #[test]
    fn other_loads_are_skipped() {
        for mut other in [steady(3_600, 0.8), steady(50, 0.97), bouncing(3_600, 40, 0.7)] {
            other.sensors.tensor_activity = Some(0.0);
            assert!(recommendations(other).is_empty());
        }
    }
}
