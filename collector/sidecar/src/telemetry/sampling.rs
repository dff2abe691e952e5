//! How the sampler keeps time, and what asking the driver costs.
//!
//! It looks at what the threads show of themselves; they must not know of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use phasemeter_sources::nvml::Metric;

use super::distribution::{Distribution, QUICK, seconds};
use crate::sampler::Gauges;

/// Which metric a call asks for.
const CALL: &str = "phasemeter.nvml.call";

pub(super) fn watch(meter: &Meter, gauges: Gauges, late: Arc<AtomicU64>) {
    ticks(meter, gauges.clone());
    calls(meter, gauges.clone());
    readings(meter, gauges, late);
}

fn ticks(meter: &Meter, gauges: Gauges) {
    let lateness = seconds(
        meter,
        "phasemeter.sampler.lateness",
        "How long after their deadline ticks came, of all GPUs",
        QUICK,
    );
    let lateness = Distribution::new(&lateness, Vec::new());
    meter
        .u64_observable_counter("phasemeter.sampler.missed")
        .with_unit("{tick}")
        .with_description("Ticks that did not come because the one before took too long")
        .with_callback(move |observer| {
            lateness.tell(gauges.lateness());
            observer.observe(gauges.stats().missed(), &[]);
        })
        .build();
}

fn calls(meter: &Meter, gauges: Gauges) {
    let duration =
        seconds(meter, "phasemeter.nvml.call.duration", "What calls of the driver take", QUICK);
    let each = Metric::ALL.map(|metric| {
        let attributes = vec![KeyValue::new(CALL, metric.name())];
        (metric, Distribution::new(&duration, attributes.clone()), attributes)
    });
    meter
        .u64_observable_counter("phasemeter.nvml.call.errors")
        .with_unit("{error}")
        .with_description(
            "Calls that brought no answer, those that a GPU does not support included",
        )
        .with_callback(move |observer| {
            let stats = gauges.stats();
            for (metric, duration, attributes) in &each {
                let calls = gauges.calls(*metric);
                if calls.total() > 0 {
                    observer.observe(stats.failed(*metric), attributes);
                    duration.tell(calls);
                }
            }
        })
        .build();
}

fn readings(meter: &Meter, gauges: Gauges, late: Arc<AtomicU64>) {
    meter
        .u64_observable_counter("phasemeter.sampler.dropped")
        .with_unit("{observation}")
        .with_description("Observations that were lost because the pipeline was too slow")
        .with_callback(move |observer| observer.observe(gauges.stats().dropped(), &[]))
        .build();
    meter
        .u64_observable_counter("phasemeter.pipeline.late")
        .with_unit("{reading}")
        .with_description("Readings that came when their time was settled, and are left out")
        .with_callback(move |observer| observer.observe(late.load(Ordering::Relaxed), &[]))
        .build();
}
