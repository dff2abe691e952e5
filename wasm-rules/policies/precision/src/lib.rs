//! Recommends faster arithmetic for compute-bound GPUs.
//!
//! Lower precision raises throughput rather than reducing waste, as far as the architecture supports
//! it. Utilization does not reveal a job's precision, so tensor activity must be measured. Without
//! tensor cores in use, matrix products most likely run in FP32: TF32 comes first, then 16 bits. A program without a
//! sign of a model may have no such products: then the framework is a need. Training whose tensor activity was not
//! recorded gets a trial, which promises nothing.

mod step;
mod trial;
mod unclear;

use phasemeter_diagnoses::{
    BUSY_LINK, FEW_SMS, FULL_BANDWIDTH, Format, LOW_POWER, Model, confidence, draws_more_at_times,
    framework_need, has_failed_counters, kind_of_speedup, multiplies_matrices, nvlink, pcie,
    power_share, share,
};
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{
    Account, Effort, Evidence, Gpu, Recommendation, Remediation, Response, Saving, Target, Window,
    Workload, evidence, groups, log, mean,
};

use step::{Change, changes, has_tensor_cores};

phasemeter_policy::settings! {
    /// Minimum compute-bound share of observed time.
    min_compute_bound: number = 0.5 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Tensor activity from which a job already runs mostly on tensor cores. Efficient mixed-precision
/// training reaches 0.4 and more.
const MIN_TENSOR_ACTIVITY: f64 = 0.25;

/// Tensor activity, relative to that of the SMs, while matrix products use tensor cores. An assumption: it shows
/// the share of the time in which they do already.
const EFFICIENT_TENSOR: f64 = 0.5;

/// Share of the time in matrix products, the only part that gets faster: low, expected, high. An
/// assumption; it bounds the gain by Amdahl's law.
const MATMUL_SHARE: [f64; 3] = [0.2, 0.4, 0.6];

/// A change for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    model: &'static Model,
    tensor: f64,
    change: Change,
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let mut findings = Vec::new();
    let mut unclear = Vec::new();
    let mut lacking = Vec::new();
    let mut without_sign = Vec::new();
    let mut unmeasured = Vec::new();
    for gpu in window.observed_gpus(settings.min_seconds) {
        let bound = gpu.full_share() >= settings.min_compute_bound;
        // A GPU that waits for input would only wait longer.
        if !bound || gpu.is_bouncing() || has_failed_counters(gpu) {
            continue;
        }
        let Some(tensor) = tensor_use(gpu) else {
            unmeasured.push(gpu);
            continue;
        };
        let has_sign = multiplies_matrices(gpu, window);
        if tensor < MIN_TENSOR_ACTIVITY && !has_limits(gpu) && has_sign {
            lacking.push(gpu);
        }
        if !arithmetic_limits(gpu) {
            continue;
        }
        if !has_sign {
            without_sign.push(gpu);
            // A profile shows what it computes, whatever that is.
            unclear.extend(Some(gpu).filter(|_| tensor > 0.0 && tensor < MIN_TENSOR_ACTIVITY));
            continue;
        }
        let Some(model) = Model::of(&gpu.model) else {
            let problem = " is compute-bound, but its model is unknown: no precision recommended";
            log::info(&[&*gpu.name(), problem].concat());
            continue;
        };
        let mut changes = changes(model, tensor, gpu.workload);
        let declared = Format::declared(gpu, window);
        changes.retain(|change| declared.is_none_or(|format| format < change.step.format));
        if changes.is_empty() && tensor < MIN_TENSOR_ACTIVITY && has_tensor_cores(model) {
            unclear.push(gpu);
        }
        findings.extend(changes.into_iter().map(|change| Finding { gpu, model, tensor, change }));
    }
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        a.model == b.model && a.change == b.change && a.gpu.workload == b.gpu.workload
    };
    let groups = groups(findings, similar);
    let changes = groups.iter().map(|group| write(group));
    let changes = changes.chain(unclear::profile(&unclear));
    Response::of(
        changes.chain(trial::recommend(&unmeasured, window)),
        unclear::needs(&lacking).into_iter().chain(framework_need(without_sign)),
    )
}

/// Tensor activity of a GPU relative to that of its SMs, as far as measured.
fn tensor_use(gpu: &Gpu) -> Option<f64> {
    let sms = gpu.sensors.sm_activity.filter(|sms| *sms > 0.0).unwrap_or(1.0);
    Some((gpu.sensors.tensor_activity? / sms).min(1.0))
}

/// Whether activity of SMs and of memory was measured: it tells arithmetic from other limits.
fn has_limits(gpu: &Gpu) -> bool {
    gpu.sensors.sm_activity.is_some() && gpu.sensors.dram_activity.is_some()
}

/// Whether arithmetic can be the limit: few active SMs wait for launches or for other GPUs, and at full memory
/// bandwidth for bytes. Training whose tensor cores are little used, or in use, suggests it without these columns.
fn arithmetic_limits(gpu: &Gpu) -> bool {
    let (sms, dram) = (gpu.sensors.sm_activity, gpu.sensors.dram_activity);
    let tensor = tensor_use(gpu).unwrap_or(0.0);
    let is_used = tensor >= MIN_TENSOR_ACTIVITY;
    // Kernels that exchange keep SMs active.
    let exchanges = || [nvlink(gpu), pcie(gpu)].into_iter().flatten().any(|it| it >= BUSY_LINK);
    // Of steps that are no arithmetic in part, that part comes first.
    let waits_in_part = gpu.workload == Workload::Training && draws_more_at_times(gpu);
    let unmeasured = (is_used || tensor <= share::HARDLY_ANY) && gpu.workload.is_job();
    sms.map_or(unmeasured, |sms| sms >= FEW_SMS)
        && dram.map_or(unmeasured, |dram| dram < FULL_BANDWIDTH)
        && (is_used || !exchanges())
        && !waits_in_part
}

/// Recommends a change for GPUs of the same model.
fn write(group: &[Finding<'_>]) -> Recommendation {
    let Finding { gpu: first, change, model, tensor } = &group[0];
    let step = change.step;
    let bound = |gpu: &Gpu| share_of_bill(gpu, gpu.accounts.compute_bound);
    let in_16_bits = *step == step::FP8;
    // The part that runs on tensor cores already does not get faster.
    let done = if in_16_bits { 0.0 } else { tensor / EFFICIENT_TENSOR };
    let [_, expected, high] =
        MATMUL_SHARE.map(|share| f64::max(share - done, 0.0) * (1.0 - 1.0 / change.speedup));
    let mut sure = if first.workload.is_job() { confidence::LIKELY } else { confidence::EVEN };
    if !in_16_bits {
        // The more of the time tensor cores are used, the less likely the rest are matrix products.
        sure *= 1.0 - tensor / MIN_TENSOR_ACTIVITY;
        if !group.iter().all(|found| has_limits(found.gpu)) {
            sure *= confidence::VERY_LIKELY;
        }
    }
    let gpus = || group.iter().map(|finding| finding.gpu);
    let level = mean(gpus(), |gpu| gpu.accounts.compute_bound.level());
    let time = mean(gpus(), Gpu::full_share);
    let activity = mean(gpus(), |gpu| gpu.sensors.tensor_activity.unwrap_or(0.0));
    let mut values = evidence([
        ("compute_bound.share_of_time", time, "1"),
        ("compute_bound.utilization", level, "1"),
        ("peak.speedup", change.speedup, "1"),
        ("tensor.activity", activity, "1"),
    ]);
    let sms = first.sensors.sm_activity.map(|_| {
        let sms = mean(gpus(), |gpu| gpu.sensors.sm_activity.unwrap_or(0.0));
        [", and SMs ", &percent(sms)].concat()
    });
    let limit = if in_16_bits {
        "arithmetic in 16 bits most likely limits it"
    } else {
        "matrix products most likely run in FP32"
    };
    let mut rationale = format!(
        "Tensor cores are {} active{}: {limit}. {} is compute-bound {} of the time. The peak of {} is {}× as high \
         in {} as in {}. Only matrix products get faster: 20–60% of the time is assumed.",
        percent(activity),
        sms.unwrap_or_default(),
        subject(group.len()),
        percent(time),
        model.name,
        decimal(change.speedup, 1),
        step.name,
        change.from,
    );
    if let Some(share) = gpus().filter_map(power_share).reduce(f64::min) {
        values.push(Evidence::new("power.share_of_limit", share, "1"));
        let confirms =
            if share >= LOW_POWER { ", which confirms a compute-bound load" } else { "" };
        rationale += &[" Power draw is ", &percent(share), " of the limit", confirms, "."].concat();
    }
    Recommendation {
        title: ["Try ", step.name, " for matrix products"].concat(),
        action: format!(
            "Use {}, and compare the loss or the results over some thousand steps.",
            step.how
        ),
        rationale,
        // A trial shows whether accuracy allows it.
        saving: Saving::combined(
            gpus().map(|gpu| (gpu, Saving::part(bound(gpu), [0.0, expected, high]))),
        ),
        confidence: mean(gpus(), Gpu::confidence) * sure,
        evidence: values,
        kind: kind_of_speedup(first.workload),
        effort: if *step == step::TF32 { Effort::Low } else { Effort::Medium },
        // The other changes are in the code of the job.
        remediation: (*step == step::TF32).then(|| {
            let name = ("name", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE".to_owned());
            Remediation::new("env.set", [name, ("value", "1".to_owned())])
                .unless("the result needs more than ten bits of each fraction")
        }),
        ..Recommendation::new(
            &["precision.", step.lever].concat(),
            Target::Throughput,
            step.lever,
            gpus(),
        )
    }
}

/// Returns an account's share of the bill, or of the time if the GPU is unpriced.
fn share_of_bill(gpu: &Gpu, account: Account) -> f64 {
    let part = if gpu.price.is_some() { account.cost as f64 } else { account.seconds };
    if gpu.weight() > 0.0 { part / gpu.weight() } else { 0.0 }
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, steady, window, with_power};
    use phasemeter_policy::{RecommendationKind, Workload};

    use super::*;

    fn recommendations(gpu: Gpu) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(vec![gpu])).recommendations
    }

    fn gpu(model: &str, tensor: f64) -> Gpu {
        let framework = ("phasemeter.framework".to_owned(), "pytorch".to_owned());
        let steady = Gpu { attributes: vec![framework], ..steady(3_600, 0.97) };
        let mut gpu = Gpu { model: model.to_owned(), ..steady };
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
            ("AMD Instinct MI300X", &["bf16"]),
            ("NVIDIA H100 80GB HBM3", &["tf32", "bf16"]),
            ("unknown", &[]),
        ] {
            assert_eq!(levers(gpu(model, 0.0)), expected, "{model}");
        }
    }

    #[test]
    fn tensor_activity_selects_the_change() {
        assert_eq!(levers(gpu("NVIDIA H100 80GB HBM3", 0.6)), ["fp8"]);
        assert!(levers(gpu("NVIDIA H100 80GB HBM3", 0.2)).is_empty(), "activity of SMs is unknown");
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

    /// An A100 with this activity of SMs, tensor cores and memory.
    fn active(sms: f64, tensor: f64, dram: f64) -> Gpu {
        let mut gpu = gpu("NVIDIA A100-SXM4-80GB", tensor);
        gpu.sensors.sm_activity = Some(sms);
        gpu.sensors.dram_activity = Some(dram);
        gpu
    }

    #[test]
    fn saving_and_confidence_fall_with_tensor_activity() {
        let tf32 = |tensor| recommendations(active(0.87, tensor, 0.4)).remove(0);
        let steps = [0.005, 0.015, 0.025, 0.05, 0.08].map(tf32);
        assert!(steps.iter().all(|one| one.lever == "tf32"));
        for pair in steps.windows(2) {
            assert!(pair[0].saving.expected > pair[1].saving.expected);
            assert!(pair[0].confidence > pair[1].confidence);
            assert!(pair[0].saving.expected - pair[1].saving.expected < 0.1, "no cliff");
        }
        assert!(steps[4].confidence > 0.4, "{}", steps[4].confidence);
    }

    #[test]
    fn other_limits_are_asked_for_and_lower_the_confidence() {
        let respond = |gpu: Gpu| recommend(&Settings::default(), &window(vec![gpu]));
        let missing = |gpu: Gpu| -> Vec<_> {
            respond(gpu).needs.into_iter().map(|need| need.missing).collect()
        };
        let mut unmeasured = active(0.87, 0.03, 0.4);
        unmeasured.sensors.dram_activity = None;
        let sure = |gpu: Gpu| respond(gpu).recommendations[0].confidence;
        assert!(sure(unmeasured.clone()) < sure(active(0.87, 0.03, 0.4)));
        assert_eq!(missing(unmeasured), ["dram.activity"]);
        assert!(missing(active(0.87, 0.03, 0.4)).is_empty());
        let serving = Gpu { workload: Workload::Serving, ..gpu("NVIDIA H100 80GB HBM3", 0.03) };
        assert_eq!(missing(serving), ["sm.activity", "dram.activity"]);
        assert!(missing(gpu("NVIDIA H100 80GB HBM3", 0.5)).is_empty(), "tensor cores are in use");
    }

    #[test]
    fn partly_used_tensor_cores_are_a_question_for_a_profile() {
        assert_eq!(levers(active(0.87, 0.13, 0.4)), ["measure"]);
        assert!(levers(active(0.87, 0.13, 0.8)).is_empty(), "memory bandwidth is the limit");
        assert!(levers(active(0.87, 0.4, 0.4)).is_empty(), "they are in use");
        let mut exchanges = active(0.87, 0.13, 0.4);
        exchanges.metrics.push(("nvlink.activity".to_owned(), 0.8));
        assert!(levers(exchanges).is_empty(), "communication keeps SMs active");
    }

    #[test]
    fn work_of_other_kinds_gets_what_is_right_for_all() {
        let of = |workload, gpu: Gpu| levers(Gpu { workload, ..gpu });
        for workload in [Workload::Unknown, Workload::Serving, Workload::Interactive] {
            assert_eq!(of(workload, active(0.6, 0.02, 0.3)), ["tf32"]);
            let one = recommendations(Gpu { workload, ..active(0.6, 0.02, 0.3) }).remove(0);
            let is_saving = one.kind == RecommendationKind::Saving;
            assert_eq!(is_saving, workload == Workload::Unknown, "faster replies return no GPU");
            assert_eq!(of(workload, active(0.6, 0.12, 0.3)), ["measure"]);
            assert!(
                of(workload, gpu("NVIDIA H100 80GB HBM3", 0.0)).is_empty(),
                "decoding uses few"
            );
        }
        let volta = Gpu { model: "Tesla V100-SXM2-16GB".to_owned(), ..active(0.8, 0.01, 0.3) };
        assert_eq!(of(Workload::Unknown, volta.clone()), ["measure"]);
        assert_eq!(of(Workload::Training, volta), ["amp"]);
    }

    #[test]
    fn gain_is_relative_to_tf32() {
        // 16 bits are twice as fast as TF32, so half of 0.4 is saved.
        let found = recommendations(gpu("NVIDIA H100 80GB HBM3", 0.0));
        let bf16 = found.iter().find(|one| one.lever == "bf16").unwrap();
        assert!((bf16.saving.expected - 0.4 * (1.0 - 1.0 / 2.0)).abs() < 1e-3, "{:?}", bf16.saving);
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

    #[test]
    fn programs_without_a_sign_of_matrix_products_get_no_format() {
        let respond = |tensor: f64| {
            let gpu = Gpu { attributes: Vec::new(), ..active(0.9, tensor, 0.3) };
            let window = window(vec![Gpu { workload: Workload::Batch, ..gpu }]);
            recommend(&Settings::default(), &window)
        };
        let silent = respond(0.0);
        assert!(silent.recommendations.is_empty(), "it may be a simulation");
        assert_eq!(silent.needs[0].missing, "phasemeter.framework");
        assert!(silent.needs[0].reason.len() <= 300, "{}", silent.needs[0].reason.len());
        assert!(respond(0.5).recommendations.is_empty(), "tensor cores multiply in FP64, too");
    }
}
