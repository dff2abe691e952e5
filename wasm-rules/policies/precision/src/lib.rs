//! Precision: what to do where a GPU is compute-bound.
//!
//! It is used for what it is; what is left is cheaper arithmetic, as far as its architecture has
//! it. That is no waste but throughput: it is told with what it gains, and counted only where
//! tensor activity was measured. Which precision a job runs at, utilization does not tell: without
//! that measurement the least gain is nothing, and the advice is not sure of itself.

use phasemeter_facts::{Architecture, Model};
use phasemeter_policy::column::mean;
use phasemeter_policy::log;
use phasemeter_policy::words::{decimal, each, percent};
use phasemeter_policy::{
    Account, Gpu, Policy, Recommendation, Recommender, Saving, Target, Window, groups,
};

phasemeter_policy::settings! {
    /// GPUs that are compute-bound for less than this share of their time are left alone.
    least_bound: number = 0.5 in 0.0..=1.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
}

/// The metric that tells how busy the tensor cores were: 0–1.
const TENSOR: &str = "tensor.activity";

/// From this tensor activity on, a job does most of its arithmetic there already. Well written
/// mixed-precision training shows 0.4 and more.
const ON_TENSOR_CORES: f64 = 0.25;

/// What of the time goes into matrix products, which alone become cheaper: the rest is memory,
/// kernels of another kind, communication. An assumption; by Amdahl's law it bounds the gain.
const PRODUCTS: [f64; 3] = [0.2, 0.4, 0.6];

struct Precision;

impl Policy for Precision {
    const NAME: &'static str = "precision";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds compute-bound GPUs, and the cheaper arithmetic that they have.";
    type Settings = Settings;
}

/// A step to cheaper arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    code: &'static str,
    lever: &'static str,
    title: &'static str,
    action: &'static str,
    /// From and to, in words, and how many times as fast the peak is.
    from: &'static str,
    to: &'static str,
    times: f64,
}

/// A step for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    model: &'static Model,
    tensor: Option<f64>,
    step: Step,
}

impl Recommender for Precision {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        for gpu in window.seen(settings.least_seconds) {
            let bound = gpu.share(|accounts| accounts.compute_bound) >= settings.least_bound;
            // What waits for its input would only wait longer.
            if !bound || gpu.bounces() {
                continue;
            }
            let Some(model) = Model::of(&gpu.model) else {
                log::info(
                    &[
                        &gpu.id,
                        " is compute-bound, and its model is not known: what precisions it has \
                         cannot be told",
                    ]
                    .concat(),
                );
                continue;
            };
            let tensor =
                gpu.metrics.iter().find(|(name, _)| name == TENSOR).map(|(_, value)| *value);
            let steps = steps(model, tensor).into_iter().flatten();
            findings.extend(steps.map(|step| Finding { gpu, model, tensor, step }));
        }
        let alike = |a: &Finding<'_>, b: &Finding<'_>| {
            a.model == b.model && a.step == b.step && a.tensor.is_some() == b.tensor.is_some()
        };
        groups(findings, alike).iter().filter_map(|group| advise(group)).collect()
    }
}

/// To 16 bits, where it is not known to be there; and from there to 8, where the GPU can.
fn steps(model: &Model, tensor: Option<f64>) -> [Option<Step>; 2] {
    let there = tensor.is_some_and(|activity| activity >= ON_TENSOR_CORES);
    let half = model.bf16_tflops.or(model.fp16_tflops);
    let times =
        |fast: Option<f64>, slow: Option<f64>| Some(fast? / slow?).filter(|times| *times > 1.0);
    let narrow = times(half, model.fp32_tflops).filter(|_| !there).map(|times| {
        let step = Step {
            code: "precision.bf16",
            lever: "bf16",
            title: "Compute in BF16",
            action: "Run under autocast in bfloat16, keep master weights in FP32, and compare \
                     the loss over a few thousand steps.",
            from: "FP32",
            to: "BF16",
            times,
        };
        match model.architecture {
            _ if tensor.is_some() && model.architecture >= Architecture::Volta => Step {
                code: "precision.tensor-cores",
                lever: "tensor_cores",
                title: "Bring the work onto the tensor cores",
                action: "Compute in 16 bits, with sizes that are multiples of 8, and look which \
                         kernels still run elsewhere.",
                to: "tensor cores",
                ..step
            },
            Architecture::Volta | Architecture::Turing => Step {
                code: "precision.amp",
                lever: "amp",
                title: "Compute in mixed precision",
                action: "Turn automatic mixed precision on: FP16 with loss scaling. This \
                         architecture has no BF16.",
                to: "FP16 on tensor cores",
                ..step
            },
            Architecture::Kepler | Architecture::Pascal => Step {
                code: "precision.fp16",
                lever: "fp16",
                title: "Compute in FP16",
                action: "Compute in FP16 with loss scaling. This architecture has no tensor cores.",
                to: "FP16",
                ..step
            },
            _ => step,
        }
    });
    let eighth = times(model.fp8_tflops, half).filter(|_| there || tensor.is_none());
    let eighth = eighth.map(|times| Step {
        code: "precision.fp8",
        lever: "fp8",
        title: "Compute its matrix products in FP8",
        action: "Run the linear layers in FP8, with Transformer Engine or torchao for training, \
                 or an FP8 checkpoint for serving, and compare quality before it is used.",
        from: "16 bits",
        to: "FP8",
        times,
    });
    [narrow, eighth]
}

/// What to do for GPUs of one model that can take the same step.
fn advise(group: &[Finding<'_>]) -> Option<Recommendation> {
    let Finding { step, model, tensor, .. } = group.first()?;
    let average =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let bound = |gpu: &Gpu| share_of_bill(gpu, gpu.accounts.compute_bound);
    let gain = PRODUCTS.map(|products| products * (1.0 - 1.0 / step.times));
    let gain = if tensor.is_some() { gain } else { [0.0, gain[1], gain[2]] };
    let level = average(|f| f.gpu.accounts.compute_bound.level());
    let time = average(|f| f.gpu.share(|accounts| accounts.compute_bound));
    let mut evidence = vec![
        ("compute_bound.share_of_time".to_owned(), time),
        ("compute_bound.utilization".to_owned(), level),
        ("peak.times".to_owned(), step.times),
    ];
    let mut why = format!(
        "{} is compute-bound for {} of the time, {} busy. {} multiplies {} times as fast in {} \
         as in {} at its peak; only matrix products gain, so a fifth to three fifths of the time \
         are reckoned with. ",
        each(group.len()),
        percent(time),
        percent(level),
        model.name,
        decimal(step.times, 1),
        step.to,
        step.from,
    );
    let watts = group.iter().filter_map(|f| Some(mean(&f.gpu.power)? / f.gpu.power_limit_watts?));
    if let Some(share) = watts.reduce(f64::min) {
        evidence.push(("power.share_of_limit".to_owned(), share));
        let so = if share >= 0.6 {
            " of its power limit, it is busy in earnest. "
        } else {
            " of its power limit, it may wait for memory more than for arithmetic. "
        };
        why += &["Drawing ", &percent(share), so].concat();
    }
    match tensor {
        Some(activity) => {
            evidence.push((TENSOR.to_owned(), *activity));
            why += &["Its tensor cores were ", &percent(*activity), " busy."].concat();
        }
        None => {
            why += "Which precision it runs at was not measured; where it does this already, \
                    there is nothing to gain.";
        }
    }
    Some(Recommendation {
        code: step.code.to_owned(),
        target: Target::Throughput,
        lever: step.lever.to_owned(),
        title: step.title.to_owned(),
        action: step.action.to_owned(),
        rationale: why,
        saving: Saving::together(group.iter().map(|f| (f.gpu, Saving::part(bound(f.gpu), gain)))),
        confidence: average(|f| f.gpu.certainty()) * if tensor.is_some() { 0.7 } else { 0.3 },
        evidence,
        gpus: group.iter().map(|f| f.gpu.id.clone()).collect(),
    })
}

/// What an account is of the bill; of the time where there is no price.
fn share_of_bill(gpu: &Gpu, account: Account) -> f64 {
    let part = if gpu.price.is_some() { account.cost as f64 } else { account.seconds };
    if gpu.weight() > 0.0 { part / gpu.weight() } else { 0.0 }
}

phasemeter_policy::recommender!(Precision);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, steady, window, with_power};

    use super::*;

    fn advice(gpu: Gpu) -> Vec<Recommendation> {
        Precision::recommend(&Settings::default(), &window(vec![gpu]))
    }

    fn of(model: &str) -> Gpu {
        Gpu { model: model.to_owned(), ..steady(3_600, 0.97) }
    }

    fn levers(gpu: Gpu) -> Vec<String> {
        advice(gpu).into_iter().map(|advice| advice.lever).collect()
    }

    #[test]
    fn each_architecture_is_told_what_it_has() {
        for (model, right) in [
            ("Tesla K80", &[][..]),
            ("Tesla P100-PCIE-16GB", &["fp16"]),
            ("Tesla V100-SXM2-16GB", &["amp"]),
            ("Tesla T4", &["amp"]),
            ("NVIDIA A100-SXM4-80GB", &["bf16"]),
            ("NVIDIA L4", &["bf16", "fp8"]),
            ("NVIDIA H100 80GB HBM3", &["bf16", "fp8"]),
            ("a GPU of tomorrow", &[]),
        ] {
            assert_eq!(levers(of(model)), right, "{model}");
        }
    }

    #[test]
    fn what_was_measured_decides() {
        let measured = |activity| {
            let metrics = vec![(TENSOR.to_owned(), activity)];
            advice(Gpu { metrics, ..of("NVIDIA H100 80GB HBM3") })
        };
        assert_eq!(measured(0.6)[0].lever, "fp8");
        assert_eq!(measured(0.02)[0].lever, "tensor_cores");
        let unknown = advice(of("NVIDIA H100 80GB HBM3"));
        assert_eq!(unknown[0].saving.low, 0.0);
        assert!(measured(0.02)[0].saving.low > 0.0 && unknown[0].confidence < 0.5);
    }

    #[test]
    fn the_gain_is_bounded_by_what_becomes_cheaper() {
        // FP8 is twice as fast as BF16: of 0.4 of the time, half; all of the bill is compute-bound.
        let found = advice(of("NVIDIA H100 80GB HBM3"));
        assert!((found[1].saving.expected - 0.2).abs() < 1e-3, "{:?}", found[1].saving);
        assert_eq!(found[1].target, Target::Throughput);
    }

    #[test]
    fn power_is_told_where_it_was_recorded() {
        let with = advice(with_power(of("NVIDIA A100-SXM4-80GB"), 650.0));
        assert!(
            with[0].rationale.contains("power limit, it is busy in earnest"),
            "{}",
            with[0].rationale
        );
        assert!(!advice(of("NVIDIA A100-SXM4-80GB"))[0].rationale.contains("power"));
    }

    #[test]
    fn what_is_not_compute_bound_is_left_alone() {
        for gpu in [steady(3_600, 0.8), steady(50, 0.97), bouncing(3_600, 40, 0.7)] {
            assert!(advice(gpu).is_empty());
        }
    }
}
