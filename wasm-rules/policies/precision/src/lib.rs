//! Recommends faster arithmetic for compute-bound GPUs.
//!
//! Lower precision raises throughput rather than reducing waste, as far as the architecture supports
//! it. Utilization does not reveal a job's precision: without measured tensor activity, the low
//! saving is 0 and confidence is reduced.

use phasemeter_policy::column::mean;
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::log;
use phasemeter_policy::{
    Account, Gpu, Policy, Recommendation, Recommender, Saving, Target, Window, groups,
};
use phasemeter_specs::{Architecture, Model};

phasemeter_policy::settings! {
    /// Minimum compute-bound share of observed time.
    min_compute_bound: number = 0.5 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Metric of tensor-core activity: 0–1.
const TENSOR: &str = "tensor.activity";

/// Tensor activity from which a job already runs mostly on tensor cores. Efficient mixed-precision
/// training reaches 0.4 and more.
const MIN_TENSOR_ACTIVITY: f64 = 0.25;

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
    tensor: Option<f64>,
    change: Change,
}

impl Recommender for Precision {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        for gpu in window.observed_gpus(settings.min_seconds) {
            let bound = gpu.share(|accounts| accounts.compute_bound) >= settings.min_compute_bound;
            // A GPU that waits for input would only wait longer.
            if !bound || gpu.is_bouncing() {
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
            let tensor =
                gpu.metrics.iter().find(|(name, _)| name == TENSOR).map(|(_, value)| *value);
            let changes = changes(model, tensor).into_iter().flatten();
            findings.extend(changes.map(|change| Finding { gpu, model, tensor, change }));
        }
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            a.model == b.model && a.change == b.change && a.tensor.is_some() == b.tensor.is_some()
        };
        groups(findings, similar).iter().filter_map(|group| recommend(group)).collect()
    }
}

/// Returns a change to 16 bits, unless the job is known to use them, and a change to 8 bits, if the
/// model supports them.
fn changes(model: &Model, tensor: Option<f64>) -> [Option<Change>; 2] {
    let on_tensor_cores = tensor.is_some_and(|activity| activity >= MIN_TENSOR_ACTIVITY);
    let half = model.bf16_tflops.or(model.fp16_tflops);
    let speedup =
        |fast: Option<f64>, slow: Option<f64>| Some(fast? / slow?).filter(|ratio| *ratio > 1.0);
    let to_half = speedup(half, model.fp32_tflops).filter(|_| !on_tensor_cores).map(|speedup| {
        let change = Change {
            code: "precision.bf16",
            lever: "bf16",
            title: "Train and serve in BF16",
            action: "Use autocast with bfloat16, keep master weights in FP32, and compare the loss \
                     over a few thousand steps.",
            from: "FP32",
            to: "BF16",
            speedup,
        };
        match model.architecture {
            _ if tensor.is_some() && model.architecture >= Architecture::Volta => Change {
                code: "precision.tensor-cores",
                lever: "tensor_cores",
                title: "Use the tensor cores",
                action: "Compute in 16 bits with sizes that are multiples of 8. Profile which \
                         kernels still run on CUDA cores.",
                to: "tensor cores",
                ..change
            },
            Architecture::Volta | Architecture::Turing => Change {
                code: "precision.amp",
                lever: "amp",
                title: "Use mixed precision",
                action: "Turn on automatic mixed precision: FP16 with loss scaling. This \
                         architecture does not support BF16.",
                to: "FP16 on tensor cores",
                ..change
            },
            Architecture::Kepler | Architecture::Pascal => Change {
                code: "precision.fp16",
                lever: "fp16",
                title: "Use FP16",
                action: "Compute in FP16 with loss scaling. This architecture has no tensor cores.",
                to: "FP16",
                ..change
            },
            _ => change,
        }
    });
    let to_fp8 = speedup(model.fp8_tflops, half).filter(|_| on_tensor_cores || tensor.is_none());
    let to_fp8 = to_fp8.map(|speedup| Change {
        code: "precision.fp8",
        lever: "fp8",
        title: "Use FP8 for matrix products",
        action: "Run linear layers in FP8: with Transformer Engine or torchao for training, with an \
                 FP8 checkpoint for serving. Compare quality before deployment.",
        from: "16 bits",
        to: "FP8",
        speedup,
    });
    [to_half, to_fp8]
}

/// Recommends a change for GPUs of the same model.
fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let Finding { change, model, tensor, .. } = group.first()?;
    let average =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let bound = |gpu: &Gpu| share_of_bill(gpu, gpu.accounts.compute_bound);
    let gain = MATMUL_SHARE.map(|share| share * (1.0 - 1.0 / change.speedup));
    let gain = if tensor.is_some() { gain } else { [0.0, gain[1], gain[2]] };
    let level = average(|f| f.gpu.accounts.compute_bound.level());
    let time = average(|f| f.gpu.share(|accounts| accounts.compute_bound));
    let mut evidence = vec![
        ("compute_bound.share_of_time".to_owned(), time),
        ("compute_bound.utilization".to_owned(), level),
        ("peak.speedup".to_owned(), change.speedup),
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
        evidence.push(("power.share_of_limit".to_owned(), share));
        let meaning = if share >= 0.6 {
            " of the limit, which confirms a compute-bound load. "
        } else {
            " of the limit, so the load may be memory-bound instead. "
        };
        rationale += &["Power draw is ", &percent(share), meaning].concat();
    }
    match tensor {
        Some(activity) => {
            evidence.push((TENSOR.to_owned(), *activity));
            rationale += &["Tensor cores were ", &percent(*activity), " active."].concat();
        }
        None => {
            rationale += "The current precision was not measured; if the job already uses this one, \
                          there is nothing to gain.";
        }
    }
    Some(Recommendation {
        code: change.code.to_owned(),
        target: Target::Throughput,
        lever: change.lever.to_owned(),
        title: change.title.to_owned(),
        action: change.action.to_owned(),
        rationale,
        saving: Saving::combined(group.iter().map(|f| (f.gpu, Saving::part(bound(f.gpu), gain)))),
        confidence: average(|f| f.gpu.confidence()) * if tensor.is_some() { 0.7 } else { 0.3 },
        evidence,
        gpus: group.iter().map(|f| f.gpu.id.clone()).collect(),
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
        Precision::recommend(&Settings::default(), &window(vec![gpu]))
    }

    fn gpu(model: &str) -> Gpu {
        Gpu { model: model.to_owned(), ..steady(3_600, 0.97) }
    }

    fn levers(gpu: Gpu) -> Vec<String> {
        recommendations(gpu).into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn changes_depend_on_architecture() {
        for (model, expected) in [
            ("Tesla K80", &[][..]),
            ("Tesla P100-PCIE-16GB", &["fp16"]),
            ("Tesla V100-SXM2-16GB", &["amp"]),
            ("Tesla T4", &["amp"]),
            ("NVIDIA A100-SXM4-80GB", &["bf16"]),
            ("NVIDIA L4", &["bf16", "fp8"]),
            ("NVIDIA H100 80GB HBM3", &["bf16", "fp8"]),
            ("unknown", &[]),
        ] {
            assert_eq!(levers(gpu(model)), expected, "{model}");
        }
    }

    #[test]
    fn tensor_activity_selects_the_change() {
        let measured = |activity| {
            let metrics = vec![(TENSOR.to_owned(), activity)];
            recommendations(Gpu { metrics, ..gpu("NVIDIA H100 80GB HBM3") })
        };
        assert_eq!(measured(0.6)[0].lever, "fp8");
        assert_eq!(measured(0.02)[0].lever, "tensor_cores");
        let unknown = recommendations(gpu("NVIDIA H100 80GB HBM3"));
        assert_eq!(unknown[0].saving.low, 0.0);
        assert!(measured(0.02)[0].saving.low > 0.0 && unknown[0].confidence < 0.5);
    }

    #[test]
    fn gain_is_bounded_by_matmul_share() {
        // FP8 is twice as fast as BF16, so half of 0.4 is saved; the whole bill is compute-bound.
        let found = recommendations(gpu("NVIDIA H100 80GB HBM3"));
        assert!((found[1].saving.expected - 0.2).abs() < 1e-3, "{:?}", found[1].saving);
        assert_eq!(found[1].target, Target::Throughput);
    }

    #[test]
    fn rationale_mentions_power_if_recorded() {
        let with = recommendations(with_power(gpu("NVIDIA A100-SXM4-80GB"), 650.0));
        assert!(
            with[0].rationale.contains("confirms a compute-bound load"),
            "{}",
            with[0].rationale
        );
        assert!(!recommendations(gpu("NVIDIA A100-SXM4-80GB"))[0].rationale.contains("Power"));
    }

    #[test]
    fn other_loads_are_skipped() {
        for gpu in [steady(3_600, 0.8), steady(50, 0.97), bouncing(3_600, 40, 0.7)] {
            assert!(recommendations(gpu).is_empty());
        }
    }
}
