//! Requests of other programs: a Collector that scrapes dcgm-exporter, an agent, a workload.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::EncodedRequest;

/// A whole minute.
pub(crate) const START: u64 = 1_785_110_400;

pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn metrics(scope: &str, resource: Vec<KeyValue>, metrics: Vec<Metric>) -> EncodedRequest {
    let scope = InstrumentationScope { name: scope.to_owned(), ..Default::default() };
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource = Some(Resource { attributes: resource, ..Resource::default() });
    let group = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics: vec![group] })
}

fn point(attributes: Vec<KeyValue>, from: u64, at: u64, value: f64) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: from * 1_000_000_000,
        time_unix_nano: at * 1_000_000_000,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

/// A scrape of dcgm-exporter at this second.
pub(crate) fn page(gpu: &str, at: u64, percent: f64) -> EncodedRequest {
    page_of_host(gpu, "node-1", at, percent)
}

/// A scrape of dcgm-exporter on this host.
pub(crate) fn page_of_host(gpu: &str, host: &str, at: u64, percent: f64) -> EncodedRequest {
    page_with(gpu, host, &[], at, percent)
}

/// A scrape of dcgm-exporter with further labels.
pub(crate) fn page_with(
    gpu: &str,
    host: &str,
    further: &[(&str, &str)],
    at: u64,
    percent: f64,
) -> EncodedRequest {
    let labels = || {
        let mut labels = vec![
            text("gpu", "0"),
            text("UUID", gpu),
            text("pci_bus_id", "00000000:01:00.0"),
            text("device", "nvidia0"),
            text("modelName", "NVIDIA L4"),
            text("Hostname", host),
        ];
        labels.extend(further.iter().map(|(key, value)| text(key, value)));
        labels
    };
    let gauge = |name: &str, value: f64| {
        let data_points = vec![point(labels(), 0, at, value)];
        let data = Some(Data::Gauge(Gauge { data_points }));
        Metric { name: name.to_owned(), data, ..Metric::default() }
    };
    let scope =
        "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver";
    let all = vec![
        gauge("DCGM_FI_DEV_FB_USED", 0.0),
        gauge("DCGM_FI_DEV_GPU_UTIL", percent),
        gauge("DCGM_FI_DEV_POWER_USAGE", 9_223_372_036_854_775_794.0),
        gauge("DCGM_FI_DEV_XID_ERRORS", 0.0),
    ];
    metrics(scope, vec![text("service.name", "dcgm")], all)
}

/// A metric with its labels and its value.
pub(crate) type Sample<'a> = (&'a str, Vec<(&'a str, &'a str)>, f64);

/// A scrape of any exporter: a gauge per sample.
pub(crate) fn gauges(samples: &[Sample<'_>], at: u64) -> EncodedRequest {
    let gauge = |(name, labels, value): &Sample<'_>| {
        let labels = labels.iter().map(|(key, value)| text(key, value)).collect();
        let data_points = vec![point(labels, 0, at, *value)];
        let data = Some(Data::Gauge(Gauge { data_points }));
        Metric { name: (*name).to_owned(), data, ..Metric::default() }
    };
    metrics(
        "prometheusreceiver",
        vec![text("service.name", "dcgm")],
        samples.iter().map(gauge).collect(),
    )
}

/// Utilization of a GPU by OpenTelemetry's conventions, from this scope.
pub(crate) fn hardware(gpu: &str, scope: &str, at: u64) -> EncodedRequest {
    hardware_of(gpu, scope, &[], at)
}

/// The same from a resource with these further attributes.
pub(crate) fn hardware_of(
    gpu: &str,
    scope: &str,
    further: &[(&str, &str)],
    at: u64,
) -> EncodedRequest {
    let attributes = vec![text("hw.id", gpu), text("hw.type", "gpu")];
    let data_points = vec![point(attributes, 0, at, 0.5)];
    let data = Some(Data::Gauge(Gauge { data_points }));
    let metric = Metric { name: "hw.gpu.utilization".to_owned(), data, ..Metric::default() };
    let mut resource = vec![text("service.name", "any")];
    resource.extend(further.iter().map(|(key, value)| text(key, value)));
    metrics(scope, resource, vec![metric])
}

/// A scrape with everything that the mappings read.
pub(crate) fn full_page(gpu: &str, at: u64, percent: f64) -> EncodedRequest {
    let labels = || vec![text("UUID", gpu), text("modelName", "NVIDIA L4")];
    let gauge = |(name, value): (&str, f64)| {
        let data = Some(Data::Gauge(Gauge { data_points: vec![point(labels(), 0, at, value)] }));
        Metric { name: name.to_owned(), data, ..Metric::default() }
    };
    let all = [
        ("DCGM_FI_DEV_GPU_UTIL", percent),
        ("DCGM_FI_DEV_FB_USED", 4_096.0),
        ("DCGM_FI_DEV_FB_TOTAL", 23_034.0),
        ("DCGM_FI_DEV_POWER_USAGE", 61.5),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", at as f64 * 61_500.0),
        ("DCGM_FI_DEV_GPU_TEMP", 41.0),
        ("DCGM_FI_DEV_SM_CLOCK", 1_410.0),
        ("DCGM_FI_DEV_MEM_CLOCK", 6_251.0),
        ("DCGM_FI_DEV_XID_ERRORS", 0.0),
    ];
    metrics("prometheus", vec![text("service.name", "dcgm")], all.map(gauge).into())
}

/// What an agent has billed of a GPU.
pub(crate) fn cost_of_agent(gpu: &str, from: u64, to: u64, instance: &str) -> EncodedRequest {
    cost_of(gpu, from, to, &[("service.instance.id", instance)])
}

/// The same from a resource with these attributes.
pub(crate) fn cost_of(gpu: &str, from: u64, to: u64, resource: &[(&str, &str)]) -> EncodedRequest {
    let attributes = vec![text("hw.id", gpu), text("phasemeter.phase", "underutilized")];
    let data = Data::Sum(Sum {
        data_points: vec![point(attributes, from, to, 1.0)],
        aggregation_temporality: 2,
        is_monotonic: true,
    });
    let name = "phasemeter.gpu.cost".to_owned();
    let metric = Metric { name, data: Some(data), ..Metric::default() };
    let resource = resource.iter().map(|(key, value)| text(key, value)).collect();
    metrics("phasemeter", resource, vec![metric])
}

/// A request of any signal, of a different size each time.
pub(crate) fn any_request(i: usize) -> EncodedRequest {
    let name = |j: usize| format!("item {i}.{j}");
    let items = 0..=i;
    match i % 3 {
        0 => {
            let span = |j| Span { trace_id: vec![7; 16], name: name(j), ..Span::default() };
            let scope_spans = ScopeSpans { spans: items.map(span).collect(), ..Default::default() };
            let group = ResourceSpans { scope_spans: vec![scope_spans], ..Default::default() };
            EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans: vec![group] })
        }
        1 => {
            let record = |j| LogRecord { event_name: name(j), ..LogRecord::default() };
            let log_records = items.map(record).collect();
            let scope_logs = vec![ScopeLogs { log_records, ..Default::default() }];
            let group = ResourceLogs { scope_logs, ..Default::default() };
            EncodedRequest::logs(&ExportLogsServiceRequest { resource_logs: vec![group] })
        }
        _ => {
            let metric = |j| {
                let data_points = vec![point(Vec::new(), 0, 1, 1.0)];
                let data = Some(Data::Gauge(Gauge { data_points }));
                Metric { name: name(j), data, ..Metric::default() }
            };
            metrics("other", Vec::new(), items.map(metric).collect())
        }
    }
}

/// Nano-dollars as reports have them.
pub(crate) fn usd(nano_usd: u64) -> String {
    format!("{}.{:09}", nano_usd / 1_000_000_000, nano_usd % 1_000_000_000)
}
