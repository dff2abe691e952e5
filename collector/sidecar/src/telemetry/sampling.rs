//! Metrics of the sampler: punctuality and the cost of driver calls.
//!
//! Reads the statistics of the sampler, which must not depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use phasemeter_sources::nvml::Metric;

use super::histogram_bridge::{HistogramBridge, SHORT_BOUNDS, seconds};
use crate::sampler::StatsHandle;

/// The metric that a call reads.
const CALL: &str = "phasemeter.nvml.call.name";

pub(super) fn watch(meter: &Meter, sampler: StatsHandle, late: Arc<AtomicU64>) {
    ticks(meter, sampler.clone());
    calls(meter, sampler.clone());
    readings(meter, sampler, late);
}

fn ticks(meter: &Meter, sampler: StatsHandle) {
    let lateness = seconds(
        meter,
        "phasemeter.sampler.lateness",
        "Lateness of ticks after their deadline, over all GPUs",
        SHORT_BOUNDS,
    );
    let lateness = HistogramBridge::new(&lateness, Vec::new());
    meter
        .u64_observable_counter("phasemeter.sampler.tick.missed")
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
        seconds(meter, "phasemeter.nvml.call.duration", "Duration of NVML calls", SHORT_BOUNDS);
    let each = Metric::ALL.map(|metric| {
        let attributes = vec![KeyValue::new(CALL, metric.name())];
        (metric, HistogramBridge::new(&duration, attributes.clone()), attributes)
    });
    meter
        .u64_observable_counter("phasemeter.nvml.call.errors")
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
        .u64_observable_counter("phasemeter.sampler.observation.dropped")
        .with_unit("{observation}")
        .with_description("Observations dropped because the pipeline was too slow")
        .with_callback(move |observer| observer.observe(sampler.stats().dropped(), &[]))
        .build();
    meter
        .u64_observable_counter("phasemeter.pipeline.reading.late")
        .with_unit("{reading}")
        .with_description("Readings behind the watermark, which are not metered")
        .with_callback(move |observer| observer.observe(late.load(Ordering::Relaxed), &[]))
        .build();
}
