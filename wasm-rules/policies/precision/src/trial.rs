//! Training at full load whose tensor activity was not recorded: it may use a fast format already, so a trial decides.

use phasemeter_diagnoses::{
    FULL_POWER, Format, LOW_POWER, Model, computes_in_fp64, confidence, does_usual_work,
    has_full_bandwidth, is_slowed, power_share, waits,
};
use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, Target, Vendor, Window, Workload, evidence, groups, mean,
};

use crate::step::{Step, next};

/// Recommends the fastest format that a GPU has next to the declared one.
pub(crate) fn recommend(unmeasured: &[&Gpu], window: &Window) -> Vec<Recommendation> {
    let found = unmeasured.iter().filter_map(|gpu| {
        // A rank that is held back holds back its job.
        let computes_freely = |other: &Gpu| {
            does_usual_work(other, window) && !is_slowed(other) && waits(other, window).is_none()
        };
        let computes = |share: f64| (LOW_POWER..FULL_POWER).contains(&share);
        let may_compute = gpu.workload == Workload::Training
            && power_share(gpu).is_some_and(computes)
            && !has_full_bandwidth(gpu)
            && !computes_in_fp64(gpu)
            && window.gpus.iter().filter(|other| other.is_alike(gpu)).all(computes_freely);
        let declared = Format::declared(gpu, window).unwrap_or(Format::Fp32);
        Some((*gpu, next(Model::of(&gpu.model).filter(|_| may_compute)?, declared)?))
    });
    let groups = groups(found, |a: &(&Gpu, &Step), b| a.1 == b.1 && a.0.is_alike(b.0));
    groups.iter().map(|group| write(group)).collect()
}

fn write(group: &[(&Gpu, &Step)]) -> Recommendation {
    let Step { lever, name, how, .. } = group[0].1;
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let power = mean(gpus(), |gpu| power_share(gpu).unwrap_or(0.0));
    let time = mean(gpus(), Gpu::full_share);
    Recommendation {
        title: ["Try ", name, " for matrix products, if it is not in use yet"].concat(),
        action: format!(
            "Run 300 steps as they are and 300 with {how}, each with --work steps=300 and the same data. phasemeter \
             compare must show fewer GPU-seconds per step, and the loss must agree. If it is in use, declare it \
             (--precision){}.",
            Vendor::of(gpus()).tool("; dcgmi dmon -e 1004 shows it without a trial", ""),
        ),
        rationale: format!(
            "{} trains at full load {} of the time at {} of its power limit, and tensor activity was not recorded: it may \
             compute in FP32. Nothing is saved before the trial.",
            subject(group.len()),
            percent(time),
            percent(power),
        ),
        confidence: confidence::UNLIKELY * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("compute_bound.share_of_time", time, "1"),
            ("power.share_of_limit", power, "1"),
        ]),
        effort: Effort::Medium,
        ..Recommendation::new("precision.trial", Target::Throughput, lever, gpus())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_power};

    use super::*;

    fn levers(model: &str, watts: f64, precision: Option<&str>) -> Vec<String> {
        let gpu = Gpu { model: model.to_owned(), ..with_power(steady(3_600, 0.98), watts) };
        let mut window = window(vec![gpu]);
        window.attributes = precision
            .map(|name| ("phasemeter.precision".to_owned(), name.to_owned()))
            .into_iter()
            .collect();
        let found = recommend(&[&window.gpus[0]], &window);
        assert!(found.iter().all(|one| one.saving.high <= 0.0 && one.title.starts_with("Try")));
        found.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn trial_is_of_the_next_format_that_the_model_has() {
        const H100: &str = "NVIDIA H100 80GB HBM3";
        const A100: &str = "NVIDIA A100-SXM4-80GB";
        for (model, precision, expected) in [
            (H100, None, &["bf16"][..]),
            (H100, Some("bf16"), &["fp8"]),
            (H100, Some("fp8"), &[]),
            (H100, Some("fp64"), &[]),
            (A100, Some("tf32"), &["bf16"]),
            (A100, Some("fp16"), &[]),
            ("Tesla T4", None, &["amp"]),
            ("AMD Instinct MI300X", None, &["bf16"]),
            ("AMD Instinct MI300X", Some("bf16"), &["fp8"]),
            ("AMD Instinct MI210", Some("bf16"), &[]),
            ("Tesla P100-PCIE-16GB", None, &[]),
            ("unknown", None, &[]),
        ] {
            assert_eq!(levers(model, 490.0, precision), expected, "{model}, {precision:?}");
        }
        assert!(levers(H100, 660.0, None).is_empty(), "tensor cores work");
        assert!(levers(H100, 200.0, None).is_empty(), "arithmetic is not the limit");
    }
}
