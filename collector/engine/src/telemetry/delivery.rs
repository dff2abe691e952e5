//! Metrics of OTLP delivery, by the OpenTelemetry conventions for SDK exporters.
//!
//! Reads the statistics of a client, which must not depend on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Config, DeliveryCounts, OperationEnd, ResponseStatus, Stats};
use phasemeter_otlp::names::metric;

use super::histogram_bridge::{HistogramBridge, NETWORK_BOUNDS, seconds};

const ERROR_TYPE: &str = "error.type";

/// The part of a client for one signal: an exporter in terms of the conventions.
struct Exporter {
    stats: Stats,
    signal: Signal,
    attributes: Vec<KeyValue>,
}

/// Metric names and unit of a signal's items, from the conventions.
struct Items {
    exported: &'static str,
    inflight: &'static str,
    unit: &'static str,
}

pub(super) fn watch(meter: &Meter, stats: &Stats, config: &Config) {
    let exporters = Signal::ALL.into_iter().filter_map(|signal| {
        let target = config.target(signal)?;
        let kind = target.exporter_type(signal);
        let (address, port) = target.server();
        let mut attributes = vec![
            KeyValue::new("otel.component.type", kind),
            KeyValue::new("otel.component.name", format!("{kind}/0")),
            KeyValue::new("server.address", address),
        ];
        attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
        Some(Arc::new(Exporter { stats: stats.clone(), signal, attributes }))
    });
    let exporters: Vec<_> = exporters.collect();
    let duration = seconds(
        meter,
        "otel.sdk.exporter.operation.duration",
        "Duration of exports, including retries and the delays before them",
        NETWORK_BOUNDS,
    );
    for exporter in &exporters {
        exported(meter, exporter, &duration);
        inflight(meter, exporter);
    }
    queue(meter, exporters, stats.clone());
}

fn exported(meter: &Meter, exporter: &Arc<Exporter>, duration: &Histogram<f64>) {
    let Items { exported, unit, .. } = Items::of(exporter.signal);
    let (duration, series) = (duration.clone(), Mutex::new(BTreeMap::new()));
    let observed = Arc::clone(exporter);
    meter
        .u64_observable_counter(exported)
        .with_unit(unit)
        .with_description("Items whose export has ended, successfully or not")
        .with_callback(move |observer| {
            let counts = observed.counts();
            observer.observe(counts.sent.items, &observed.attributes);
            let failed = [
                ("rejected", counts.partially_rejected),
                ("non_retryable", counts.rejected.items),
                ("queue_full", counts.dropped.items),
                ("expired", counts.expired.items),
                ("unreadable", counts.unreadable.items),
            ];
            for (error_type, items) in failed.into_iter().filter(|(_, items)| *items > 0) {
                observer.observe(items, &observed.failed(error_type));
            }
            let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
            for (end, counts) in observed.stats.operations(observed.signal) {
                let new = || HistogramBridge::new(&duration, observed.ended(&end));
                series.entry(end.clone()).or_insert_with(new).record(counts);
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
        .with_description("Items queued or in flight")
        .with_callback(move |observer| {
            observer.observe(signed(observed.counts().unsent.items), &observed.attributes);
        })
        .build();
}

fn queue(meter: &Meter, exporters: Vec<Arc<Exporter>>, stats: Stats) {
    meter
        .i64_observable_up_down_counter(metric::EXPORTER_QUEUE_SIZE)
        .with_unit("By")
        .with_description("Size of encoded requests queued or in flight")
        .with_callback(move |observer| {
            for exporter in &exporters {
                let size = signed(exporter.counts().unsent.bytes);
                observer.observe(size, &exporter.attributes);
            }
        })
        .build();
    meter
        .i64_observable_up_down_counter(metric::EXPORTER_QUEUE_CAPACITY)
        .with_unit("By")
        .with_description("Capacity of the queue, over all signals")
        .with_callback(move |observer| observer.observe(signed(stats.queue_capacity()), &[]))
        .build();
}

impl Exporter {
    fn counts(&self) -> DeliveryCounts {
        self.stats.read().of(self.signal).clone()
    }

    /// The attributes of operations that ended like this.
    fn ended(&self, end: &OperationEnd) -> Vec<KeyValue> {
        let error_type = end.error_type.clone().map(|kind| KeyValue::new(ERROR_TYPE, kind));
        let status = end.status.map(|status| match status {
            ResponseStatus::Http(code) => {
                KeyValue::new("http.response.status_code", i64::from(code))
            }
            ResponseStatus::Grpc(name) => KeyValue::new("rpc.response.status_code", name),
        });
        self.attributes.iter().cloned().chain(error_type).chain(status).collect()
    }

    fn failed(&self, error_type: &'static str) -> Vec<KeyValue> {
        let error_type = KeyValue::new(ERROR_TYPE, error_type);
        self.attributes.iter().cloned().chain([error_type]).collect()
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
