//! What becomes of the data that is sent, in the words of OpenTelemetry's conventions for SDKs:
//! exported, for better or (with `error.type`) for worse, or in flight.
//!
//! It looks at a client's accounts; the client must not know of it.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{AttemptEnd, Config, DeliveryCounts, Stats};

use super::histogram_bridge::{HistogramBridge, NETWORK_BOUNDS, seconds};

const ERROR_TYPE: &str = "error.type";

/// A client's part for one signal: an exporter, as the conventions see it.
struct Exporter {
    stats: Stats,
    signal: Signal,
    attributes: Vec<KeyValue>,
}

/// What the conventions call a signal's items.
struct Items {
    exported: &'static str,
    inflight: &'static str,
    unit: &'static str,
}

pub(super) fn watch(meter: &Meter, stats: &Stats, config: &Config) {
    let exporters = Signal::ALL.into_iter().filter_map(|signal| {
        let kind = config.target(signal)?.exporter_type(signal);
        let attributes = vec![
            KeyValue::new("otel.component.type", kind),
            KeyValue::new("otel.component.name", format!("{kind}/0")),
        ];
        Some(Arc::new(Exporter { stats: stats.clone(), signal, attributes }))
    });
    let exporters: Vec<_> = exporters.collect();
    // An operation is an attempt: what is sent again is another.
    let duration = seconds(
        meter,
        "otel.sdk.exporter.operation.duration",
        "How long a backend takes to answer, connecting included",
        NETWORK_BOUNDS,
    );
    for exporter in &exporters {
        exported(meter, exporter, &duration);
        inflight(meter, exporter);
    }
    queue(meter, exporters, config.queue_bytes);
}

fn exported(meter: &Meter, exporter: &Arc<Exporter>, duration: &Histogram<f64>) {
    let Items { exported, unit, .. } = Items::of(exporter.signal);
    let durations = AttemptEnd::ALL.map(|end| {
        let attributes = match end {
            AttemptEnd::Accepted => exporter.attributes.clone(),
            AttemptEnd::Refused => exporter.failed("non_retryable"),
            AttemptEnd::Failed => exporter.failed("retryable"),
        };
        (end, HistogramBridge::new(duration, attributes))
    });
    let observed = Arc::clone(exporter);
    meter
        .u64_observable_counter(exported)
        .with_unit(unit)
        .with_description("Items whose export has ended, well or not")
        .with_callback(move |observer| {
            let account = observed.account();
            observer.observe(account.sent.items, &observed.attributes);
            let failed = [
                ("rejected", account.partially_rejected),
                ("non_retryable", account.refused.items),
                ("queue_full", account.dropped.items),
            ];
            for (why, items) in failed.into_iter().filter(|(_, items)| *items > 0) {
                observer.observe(items, &observed.failed(why));
            }
            for (end, duration) in &durations {
                duration.record(observed.stats.attempts(observed.signal, *end));
            }
        })
        .build();
}

fn inflight(meter: &Meter, exporter: &Arc<Exporter>) {
    let Items { inflight, unit, .. } = Items::of(exporter.signal);
    let observed = Arc::clone(exporter);
    meter
        .i64_observable_up_down_counter(inflight)
        .with_unit(unit)
        .with_description("Items that wait, or are sent and not yet answered")
        .with_callback(move |observer| {
            observer.observe(signed(observed.account().unsent.items), &observed.attributes);
        })
        .build();
}

fn queue(meter: &Meter, exporters: Vec<Arc<Exporter>>, capacity: u64) {
    meter
        .i64_observable_up_down_counter("phasemeter.exporter.queue.size")
        .with_unit("By")
        .with_description("Encoded requests that wait, or are sent and not yet answered")
        .with_callback(move |observer| {
            for exporter in &exporters {
                let size = signed(exporter.account().unsent.bytes);
                observer.observe(size, &exporter.attributes);
            }
        })
        .build();
    meter
        .i64_observable_up_down_counter("phasemeter.exporter.queue.capacity")
        .with_unit("By")
        .with_description("What the queue may hold, of all signals together")
        .with_callback(move |observer| observer.observe(signed(capacity), &[]))
        .build();
}

impl Exporter {
    fn account(&self) -> DeliveryCounts {
        self.stats.read().of(self.signal).clone()
    }

    fn failed(&self, why: &'static str) -> Vec<KeyValue> {
        let why = KeyValue::new(ERROR_TYPE, why);
        self.attributes.iter().cloned().chain([why]).collect()
    }
}

impl Items {
    const fn of(signal: Signal) -> Self {
        match signal {
            Signal::Traces => Self {
                exported: "otel.sdk.exporter.span.exported",
                inflight: "otel.sdk.exporter.span.inflight",
                unit: "{span}",
            },
            Signal::Metrics => Self {
                exported: "otel.sdk.exporter.metric_data_point.exported",
                inflight: "otel.sdk.exporter.metric_data_point.inflight",
                unit: "{data_point}",
            },
            Signal::Logs => Self {
                exported: "otel.sdk.exporter.log.exported",
                inflight: "otel.sdk.exporter.log.inflight",
                unit: "{log_record}",
            },
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
