//! Metrics of the sampler: punctuality and the cost of driver calls.
//!
//! Reads the statistics of the sampler, which must not depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use phasemeter_otlp::names::{attribute, metric};
use phasemeter_sources::live::Metric;

use super::histogram_bridge::{HistogramBridge, SHORT_BOUNDS, seconds};
use crate::sampler::StatsHandle;

/// The metric that a call reads.
const CALL: &str = attribute::NVML_CALL_NAME;

pub(super) fn watch(meter: &Meter, sampler: StatsHandle, late: Arc<AtomicU64>) {
    ticks(meter, sampler.clone());
    calls(meter, sampler.clone());
    readings(meter, sampler, late);
}

fn ticks(meter: &Meter, sampler: StatsHandle) {
    let lateness = seconds(
        meter,
        metric::SAMPLER_LATENESS,
        "Lateness of ticks after their deadline, over all GPUs",
        SHORT_BOUNDS,
    );
    let lateness = HistogramBridge::new(&lateness, Vec::new());
    meter
        .u64_observable_counter(metric::SAMPLER_TICK_MISSED)
        .with_unit("{tick}")
        .with_description("Ticks skipped because the previous one took too long")
        .with_callback(move |observer| {
            lateness.record(sampler.lateness());
            observer.observe(sampler.stats().missed(), &[]);
        })
        .build();
}

fn calls(meter: &Meter, sampler: StatsHandle) {
    let duration =
        seconds(meter, metric::NVML_CALL_DURATION, "Duration of NVML calls", SHORT_BOUNDS);
    let each = Metric::ALL.map(|metric| {
        let attributes = vec![KeyValue::new(CALL, metric.name())];
        (metric, HistogramBridge::new(&duration, attributes.clone()), attributes)
    });
    meter
        .u64_observable_counter(metric::NVML_CALL_ERRORS)
        .with_unit("{error}")
        .with_description("Failed calls, including unsupported ones")
        .with_callback(move |observer| {
            let stats = sampler.stats();
            for (metric, duration, attributes) in &each {
                let calls = sampler.calls(*metric);
                if calls.total() > 0 {
                    observer.observe(stats.failed(*metric), attributes);
                    duration.record(calls);
                }
            }
        })
        .build();
}

fn readings(meter: &Meter, sampler: StatsHandle, late: Arc<AtomicU64>) {
    meter
        .u64_observable_counter(metric::SAMPLER_OBSERVATION_DROPPED)
        .with_unit("{observation}")
        .with_description("Observations dropped because the pipeline was too slow")
        .with_callback(move |observer| observer.observe(sampler.stats().dropped(), &[]))
        .build();
    meter
        .u64_observable_counter(metric::PIPELINE_READING_LATE)
        .with_unit("{reading}")
        .with_description("Readings behind the watermark, which are not metered")
        .with_callback(move |observer| observer.observe(late.load(Ordering::Relaxed), &[]))
        .build();
}
