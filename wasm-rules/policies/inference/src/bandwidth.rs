//! Inference whose limit is memory bandwidth: each step of a language model reads all of its weights,
//! however many requests share it.
//!
//! That is a service, or a batch job that preallocates its memory as a server does.

use phasemeter_diagnoses::{confidence, kind_of_speedup, reads_weights, saved};
use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Gpu, Need, Recommendation, Response, Saving, Target, Window, Workload, evidence, groups, mean,
};

/// Recommends more requests at a time.
pub(crate) fn recommend(observed: &[&Gpu], window: &Window) -> Response {
    let gpus = observed.iter().copied().filter(|gpu| reads_weights(gpu, window));
    let groups = groups(gpus, |a, b| a.workload == b.workload);
    let blocks = groups.iter().flatten().copied();
    let need = Need::if_any(
        "memory_in_use",
        "how many more requests fit is inside of the preallocated block: the use of its cache, as the server or \
         the framework reports it, shows it",
        blocks.filter(|gpu| gpu.memory_use(window.step_seconds).is_pool()),
    );
    Response::of(groups.iter().filter_map(|group| share_reads(group)), need)
}

fn share_reads(gpus: &[&Gpu]) -> Option<Recommendation> {
    let first = gpus.first()?;
    let (dram, tensor) = (first.sensors.dram_activity?, first.sensors.tensor_activity?);
    let latency = match first.workload {
        Workload::Serving => ", as far as the latency allows",
        _ => "",
    };
    let gpus = || gpus.iter().copied();
    Some(Recommendation {
        kind: kind_of_speedup(first.workload),
        title: "Process more requests or sequences at a time".to_owned(),
        action: format!(
            "Raise the number of requests or sequences per step, with continuous batching and memory for their caches\
             {latency}. Narrower weights (8 bits) read half as much.",
        ),
        rationale: format!(
            "{} uses {} of its memory bandwidth and {} of its tensor cores: most likely reading weights is the \
             limit, and more requests share each read.",
            subject(gpus().len()),
            percent(dram),
            percent(tensor),
        ),
        saving: Saving::combined(
            gpus().map(|gpu| (gpu, Saving::part(gpu.full_share(), saved::QUARTER))),
        ),
        confidence: confidence::PROBABLE * mean(gpus(), Gpu::confidence),
        evidence: evidence([("dram.activity", dram, "1"), ("tensor.activity", tensor, "1")]),
        ..Recommendation::new("inference.bandwidth", Target::Throughput, "concurrency", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory, with_varying_memory};

    use super::*;

    #[test]
    fn inference_that_reads_weights_takes_more_requests() {
        let found = |workload, dram, tensor| {
            let mut gpu = Gpu { workload, ..with_memory(steady(3_600, 0.97), 70.0) };
            gpu.sensors.dram_activity = dram;
            gpu.sensors.tensor_activity = tensor;
            let mut window = window(vec![gpu]);
            window.metrics = vec![("work.tokens".to_owned(), 1e6)];
            recommend(&[&window.gpus[0]], &window)
        };
        let decode = found(Workload::Serving, Some(0.8), Some(0.06));
        let first = &decode.recommendations[0];
        assert_eq!((first.lever.as_str(), first.saving.low), ("concurrency", 0.0));
        assert_eq!(decode.needs[0].missing, "memory_in_use");
        let batch = found(Workload::Batch, Some(0.8), Some(0.06)).recommendations;
        assert!(!batch[0].action.contains("latency"), "{}", batch[0].action);
        let is_silent = |workload, dram, tensor| {
            let found = found(workload, dram, tensor);
            found.recommendations.is_empty() && found.needs.is_empty()
        };
        assert!(is_silent(Workload::Serving, Some(0.8), Some(0.5)));
        assert!(is_silent(Workload::Serving, Some(0.3), Some(0.06)));
        assert!(is_silent(Workload::Serving, None, Some(0.06)));
        assert!(is_silent(Workload::Training, Some(0.8), Some(0.06)));
    }

    #[test]
    fn batch_job_without_a_block_may_compute_anything() {
        let mut gpu =
            Gpu { workload: Workload::Batch, ..with_varying_memory(steady(3_600, 0.97), 40.0) };
        gpu.sensors.dram_activity = Some(0.8);
        gpu.sensors.tensor_activity = Some(0.06);
        let window = window(vec![gpu]);
        assert!(recommend(&[&window.gpus[0]], &window).recommendations.is_empty());
    }
}
