//! Requests of workloads and of a Collector that scrapes dcgm-exporter.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::EncodedRequest;

/// The attribute by which requests of the LLM server share GPU time.
pub(super) const TOKENS: &str = "gen_ai.usage.output_tokens";

const NANOS: u64 = 1_000_000_000;

/// A request of spans, different for each number.
pub(crate) fn spans(number: u64, spans: u64) -> EncodedRequest {
    let span = |i: u64| Span {
        trace_id: [number.to_be_bytes(), i.to_be_bytes()].concat(),
        span_id: i.to_be_bytes().to_vec(),
        name: "llm_request".to_owned(),
        start_time_unix_nano: 1_785_110_400 * NANOS + number,
        end_time_unix_nano: 1_785_110_401 * NANOS + i,
        trace_state: "a".repeat(100),
        ..Span::default()
    };
    traces((0..spans).map(span).collect())
}

/// A request of these spans.
pub(super) fn traces(spans: Vec<Span>) -> EncodedRequest {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let group = ResourceSpans { scope_spans, ..ResourceSpans::default() };
    EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans: vec![group] })
}

/// A request to an LLM server, in nanoseconds from `base`.
pub(super) fn llm_request(number: u64, base: u64, times: (u64, u64), tokens: i64) -> Span {
    Span {
        trace_id: [number.to_be_bytes(), [7; 8]].concat(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: "llm_request".to_owned(),
        start_time_unix_nano: base * NANOS + times.0,
        end_time_unix_nano: base * NANOS + times.1,
        attributes: vec![attribute(TOKENS, Value::IntValue(tokens))],
        ..Span::default()
    }
}

/// The utilization of GPUs at this second.
pub(super) fn page(gpus: u64, at: u64, percent: f64) -> EncodedRequest {
    let point = |gpu: u64| NumberDataPoint {
        attributes: vec![attribute("UUID", Value::StringValue(format!("GPU-{gpu:08}")))],
        time_unix_nano: at * NANOS,
        value: Some(number_data_point::Value::AsDouble(percent)),
        ..NumberDataPoint::default()
    };
    let data = Some(Data::Gauge(Gauge { data_points: (0..gpus).map(point).collect() }));
    let metric = Metric { name: "DCGM_FI_DEV_GPU_UTIL".to_owned(), data, ..Metric::default() };
    let group = ResourceMetrics {
        resource: Some(Resource::default()),
        scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
        ..ResourceMetrics::default()
    };
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics: vec![group] })
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
