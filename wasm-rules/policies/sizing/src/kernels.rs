//! Full GPUs whose arithmetic is not the limit: kernels that memory bandwidth limits, and kernels that are
//! too small.
//!
//! Only measured activity shows it. Not of inference at full memory bandwidth, which reads weights. Must not
//! depend on jobs whose GPUs wait for one another.

use phasemeter_diagnoses::{
    BUSY_LINK, FEW_SMS, confidence, framework_need, has_full_bandwidth, has_idle_tensor_cores,
    is_full, kind_of_speedup, multiplies_matrices, nvlink, pcie, reads_weights, saved,
};
use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, Response, Saving, Target, Window, Workload, evidence, groups, mean,
};

/// What limits a full GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Bandwidth,
    Launches,
}

struct Finding<'a> {
    gpu: &'a Gpu,
    limit: Limit,
    /// Measured activity of SMs, tensor cores and memory bandwidth.
    activity: [f64; 3],
}

/// Recommends other kernels, of models. Other programs have kernels of their own.
pub(crate) fn recommend(observed: &[&Gpu], window: &Window) -> Response {
    let findings = observed.iter().filter_map(|gpu| find(gpu, window));
    let (models, others): (Vec<_>, Vec<_>) =
        findings.partition(|found| multiplies_matrices(found.gpu, window));
    let groups = groups(models, |a, b| a.limit == b.limit && a.gpu.is_alike(b.gpu));
    Response::of(
        groups.iter().map(|group| change(group)),
        framework_need(others.iter().map(|found| found.gpu)),
    )
}

fn find<'a>(gpu: &'a Gpu, window: &Window) -> Option<Finding<'a>> {
    if !is_full(gpu) || gpu.workload == Workload::Interactive {
        return None;
    }
    let sensors = &gpu.sensors;
    let (sm, tensor, dram) =
        (sensors.sm_activity?, sensors.tensor_activity?, sensors.dram_activity?);
    let limit = if !has_idle_tensor_cores(gpu) {
        return None;
    } else if has_full_bandwidth(gpu) {
        let is_other = gpu.workload == Workload::Unknown && !multiplies_matrices(gpu, window);
        let is_job = gpu.workload.is_job() && !reads_weights(gpu, window);
        Some(Limit::Bandwidth).filter(|_| is_job || is_other)
    } else {
        let is_small = sm <= FEW_SMS && dram <= FEW_SMS;
        Some(Limit::Launches).filter(|_| is_small && exchanges_little(gpu, window))
    };
    Some(Finding { gpu, limit: limit?, activity: [sm, tensor, dram] })
}

/// Whether it does not wait for other GPUs: it is alone, or the links of all GPUs like it were measured and are
/// not busy.
fn exchanges_little(gpu: &Gpu, window: &Window) -> bool {
    let links = |gpu: &Gpu| [nvlink(gpu), pcie(gpu)];
    let is_free = |gpu: &Gpu| links(gpu).iter().flatten().all(|share| *share < BUSY_LINK);
    let mut others = window.gpus.iter().filter(|it| it.id != gpu.id && it.is_alike(gpu)).peekable();
    let is_measured = others.peek().is_none() || links(gpu).iter().any(Option::is_some);
    is_measured && is_free(gpu) && others.all(is_free)
}

fn change(group: &[Finding<'_>]) -> Recommendation {
    let Finding { gpu: first, limit, activity: [sm, tensor, dram] } = &group[0];
    let gpus = || group.iter().map(|finding| finding.gpu);
    let (code, lever, title, action, cause, sure) = match limit {
        Limit::Bandwidth => (
            "sizing.fuse",
            "fused_kernels",
            "Fuse the kernels that memory bandwidth limits",
            "Compile the model (torch.compile), fuse normalization, activations and in training the optimizer, and use \
             FlashAttention where there is attention. A profile names the kernels that take longest.",
            "memory bandwidth is the limit, and faster arithmetic would wait for the same bytes.",
            confidence::EVEN,
        ),
        Limit::Launches => (
            "sizing.compile",
            "compile",
            "Launch fewer and larger kernels",
            "Compile the model (torch.compile with mode reduce-overhead) or capture its steps in CUDA graphs, and put \
             more work into each step. A profile of ten steps shows how long kernels are.",
            "a kernel always runs, but most are too small for this GPU.",
            confidence::DOUBTFUL,
        ),
    };
    Recommendation {
        kind: kind_of_speedup(first.workload),
        title: title.to_owned(),
        action: action.to_owned(),
        rationale: format!(
            "{} is full with {} of its SMs, {} of its tensor cores and {} of its memory bandwidth in use: {cause}",
            subject(group.len()),
            percent(*sm),
            percent(*tensor),
            percent(*dram),
        ),
        saving: Saving::combined(
            gpus().map(|gpu| (gpu, Saving::part(gpu.full_share(), saved::FIFTH))),
        ),
        confidence: sure * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("sm.activity", *sm, "1"),
            ("tensor.activity", *tensor, "1"),
            ("dram.activity", *dram, "1"),
        ]),
        effort: Effort::Medium,
        ..Recommendation::new(code, Target::Throughput, lever, gpus())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::RecommendationKind;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn gpu([sm, tensor, dram]: [f64; 3]) -> Gpu {
        let mut gpu = steady(3_600, 0.97);
        gpu.sensors.sm_activity = Some(sm);
        gpu.sensors.tensor_activity = Some(tensor);
        gpu.sensors.dram_activity = Some(dram);
        gpu
    }

    fn levers(gpus: Vec<Gpu>) -> Vec<String> {
        let window = window(gpus);
        let observed: Vec<_> = window.gpus.iter().collect();
        recommend(&observed, &window).recommendations.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn measured_activity_selects_the_kernels_to_change() {
        assert_eq!(levers(vec![gpu([0.9, 0.1, 0.85])]), ["fused_kernels"]);
        assert_eq!(levers(vec![gpu([0.2, 0.02, 0.1])]), ["compile"]);
        assert!(levers(vec![gpu([0.9, 0.5, 0.85])]).is_empty(), "arithmetic is the limit");
        assert!(levers(vec![gpu([0.7, 0.1, 0.2])]).is_empty(), "something else is");
        assert!(levers(vec![steady(3_600, 0.97)]).is_empty(), "not measured");
    }

    #[test]
    fn services_read_weights_and_jobs_exchange() {
        let service = |activity| Gpu { workload: Workload::Serving, ..gpu(activity) };
        assert!(levers(vec![service([0.5, 0.06, 0.8])]).is_empty());
        assert_eq!(levers(vec![service([0.2, 0.02, 0.1])]), ["compile"]);
        let kind = |gpu: Gpu| {
            let window = window(vec![gpu]);
            recommend(&[&window.gpus[0]], &window).recommendations[0].kind
        };
        assert_eq!(kind(service([0.2, 0.02, 0.1])), RecommendationKind::Capacity);
        assert_eq!(kind(gpu([0.2, 0.02, 0.1])), RecommendationKind::Saving);
        let rank = |metric: &[(&str, f64)]| {
            let metrics = metric.iter().map(|(name, value)| ((*name).to_owned(), *value));
            Gpu { metrics: metrics.collect(), ..gpu([0.3, 0.1, 0.15]) }
        };
        assert!(levers(vec![rank(&[]); 2]).is_empty(), "links were not measured");
        assert!(levers(vec![rank(&[("nvlink.activity", 0.8)]); 2]).is_empty());
        assert_eq!(levers(vec![rank(&[("nvlink.activity", 0.1)]); 2]), ["compile"]);
    }

    #[test]
    fn savings_need_a_trial() {
        let window = window(vec![gpu([0.9, 0.1, 0.85])]);
        let found = recommend(&[&window.gpus[0]], &window).recommendations;
        let saving = found[0].saving;
        assert!(saving.low == 0.0 && saving.expected > 0.1 && saving.high <= 0.4, "{saving:?}");
    }

    #[test]
    fn programs_without_models_get_no_compiler() {
        let respond = |activity, framework: Option<&str>| {
            let mut window = window(vec![Gpu { workload: Workload::Batch, ..gpu(activity) }]);
            let named = framework.map(|it| ("phasemeter.framework".to_owned(), it.to_owned()));
            window.attributes = named.into_iter().collect();
            let found = recommend(&[&window.gpus[0]], &window);
            (found.recommendations.len(), found.needs.len())
        };
        for activity in [[0.9, 0.0, 0.85], [0.2, 0.0, 0.1]] {
            assert_eq!(respond(activity, None), (0, 1));
            assert_eq!(respond(activity, Some("gromacs")), (0, 1));
            assert_eq!(respond(activity, Some("jax")), (1, 0));
        }
    }
}
