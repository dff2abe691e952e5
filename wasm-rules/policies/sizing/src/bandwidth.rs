//! Services whose limit is memory bandwidth: each step of a language model reads all of its weights,
//! however many requests share it.
//!
//! Must not depend on services with capacity left.

use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{Gpu, Recommendation, Saving, Target, Workload, evidence};

/// Compute-bound share of the time from which a service is full. An assumption.
const FULL: f64 = 0.5;

/// Confidence that bandwidth is the limit. An assumption.
const SURE: f64 = 0.6;

/// Use of the memory bandwidth from which it is the limit.
const FULL_BANDWIDTH: f64 = 0.6;

/// Tensor activity up to which arithmetic is not.
const MAX_TENSOR: f64 = 0.2;

/// Share of the time that twice the requests at a time save: low, expected, high. An assumption; at most
/// one doubling, which needs a trial.
const SAVED: [f64; 3] = [0.0, 0.25, 0.5];

/// Recommends more requests at a time.
pub(crate) fn recommend(observed: &[&Gpu]) -> Option<Recommendation> {
    let full = |gpu: &Gpu| gpu.share(|accounts| accounts.compute_bound);
    let limited = |gpu: &Gpu| {
        gpu.workload == Workload::Serving
            && full(gpu) >= FULL
            && gpu.sensors.dram_activity.is_some_and(|dram| dram >= FULL_BANDWIDTH)
            && gpu.sensors.tensor_activity.is_some_and(|tensor| tensor <= MAX_TENSOR)
    };
    let gpus: Vec<&Gpu> = observed.iter().copied().filter(|gpu| limited(gpu)).collect();
    let first = gpus.first()?.sensors.clone();
    let (dram, tensor) = (first.dram_activity?, first.tensor_activity?);
    Some(Recommendation {
        title: "Serve more requests at a time".to_owned(),
        action: "Raise the number of requests per step, with continuous batching and memory for their \
                 caches, as far as the latency allows. Narrower weights (8 bits) read half as much."
            .to_owned(),
        rationale: [
            subject(gpus.len()),
            " uses ",
            &percent(dram),
            " of its memory bandwidth and ",
            &percent(tensor),
            " of its tensor cores: reading weights is the limit, and more requests share each read.",
        ]
        .concat(),
        saving: Saving::combined(gpus.iter().map(|gpu| (*gpu, Saving::part(full(gpu), SAVED)))),
        confidence: SURE,
        evidence: evidence([("dram.activity", dram, "1"), ("tensor.activity", tensor, "1")]),
        ..Recommendation::new("sizing.bandwidth", Target::Throughput, "concurrency", gpus)
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::steady;

    use super::*;

    #[test]
    fn service_that_reads_weights_takes_more_requests() {
        let found = |workload, dram, tensor| {
            let mut gpu = Gpu { workload, ..steady(3_600, 0.97) };
            gpu.sensors.dram_activity = dram;
            gpu.sensors.tensor_activity = tensor;
            recommend(&[&gpu])
        };
        let decode = found(Workload::Serving, Some(0.8), Some(0.06)).unwrap();
        assert_eq!((decode.lever.as_str(), decode.saving.low), ("concurrency", 0.0));
        assert!(found(Workload::Serving, Some(0.8), Some(0.5)).is_none());
        assert!(found(Workload::Serving, Some(0.3), Some(0.06)).is_none());
        assert!(found(Workload::Serving, None, Some(0.06)).is_none());
        assert!(found(Workload::Training, Some(0.8), Some(0.06)).is_none());
    }
}
