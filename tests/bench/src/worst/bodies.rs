//! Requests of a size that cost most, of each kind.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::{EncodedRequest, Signal};

/// A body with its kind.
pub(super) struct Body {
    pub(super) name: &'static str,
    pub(super) signal: Signal,
    pub(super) is_json: bool,
    pub(super) bytes: Vec<u8>,
}

/// A kind: a body of at most this many bytes.
type Kind = fn(usize) -> Body;

/// All kinds.
pub(super) const KINDS: [Kind; 9] = [
    attributes_and_points,
    long_attribute_and_points,
    attributes_of_points,
    scopes_of_large_resource,
    resources,
    malformed_resources,
    empty_spans,
    json_numbers,
    json_objects,
];

/// The kinds that are sent beside another client.
pub(super) const SENT: [Kind; 4] =
    [attributes_and_points, scopes_of_large_resource, malformed_resources, resources];

const NANOS: u64 = 1_000_000_000;

/// Bytes of an attribute and of a point, at most.
const ATTRIBUTE_BYTES: usize = 24;
const POINT_BYTES: usize = 24;

fn attribute(key: &str, text: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(text.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn attributes(count: usize) -> Vec<KeyValue> {
    (0..count).map(|number| attribute(&format!("{number:08}"), "value")).collect()
}

fn protobuf(name: &'static str, request: &EncodedRequest) -> Body {
    Body { name, signal: request.signal(), is_json: false, bytes: request.body().to_vec() }
}

fn points(
    name: &'static str,
    resource: Vec<KeyValue>,
    of_point: &[KeyValue],
    count: usize,
) -> Body {
    let point = NumberDataPoint {
        attributes: of_point.to_vec(),
        time_unix_nano: 1_785_110_400 * NANOS,
        value: Some(number_data_point::Value::AsDouble(0.5)),
        ..NumberDataPoint::default()
    };
    let sum =
        Sum { data_points: vec![point; count], aggregation_temporality: 2, is_monotonic: true };
    let metric = Metric { name: "m".to_owned(), data: Some(Data::Sum(sum)), ..Metric::default() };
    let group = ResourceMetrics {
        resource: Some(Resource { attributes: resource, ..Resource::default() }),
        scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
        ..ResourceMetrics::default()
    };
    let request = ExportMetricsServiceRequest { resource_metrics: vec![group] };
    protobuf(name, &EncodedRequest::metrics(&request))
}

fn attributes_and_points(size: usize) -> Body {
    let resource = attributes(size / 2 / ATTRIBUTE_BYTES);
    points("attributes of a resource, and points", resource, &[], size / 2 / POINT_BYTES)
}

fn long_attribute_and_points(size: usize) -> Body {
    let resource = vec![attribute("host.name", &"h".repeat(size / 2))];
    points("a long attribute, and points", resource, &[], size / 2 / POINT_BYTES)
}

fn attributes_of_points(size: usize) -> Body {
    let count = 100;
    let bytes = count * ATTRIBUTE_BYTES + POINT_BYTES;
    points("100 attributes of each point", Vec::new(), &attributes(count), size / bytes)
}

fn span(number: usize) -> Span {
    Span {
        trace_id: [number.to_be_bytes(), [7; 8]].concat(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: "step".to_owned(),
        start_time_unix_nano: 1_785_110_400 * NANOS,
        end_time_unix_nano: 1_785_114_000 * NANOS,
        ..Span::default()
    }
}

/// Bytes of a span with its scope, and with its resource.
const SCOPE_BYTES: usize = 64;
const RESOURCE_BYTES: usize = 84;

fn spans(name: &'static str, resource_spans: Vec<ResourceSpans>) -> Body {
    protobuf(name, &EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans }))
}

fn scopes_of_large_resource(size: usize) -> Body {
    let resource = 128 << 10;
    let scope = |number| ScopeSpans { spans: vec![span(number)], ..ScopeSpans::default() };
    let group = ResourceSpans {
        resource: Some(Resource {
            attributes: vec![attribute("host.name", &"h".repeat(resource))],
            ..Resource::default()
        }),
        scope_spans: (0..(size - resource) / SCOPE_BYTES).map(scope).collect(),
        ..ResourceSpans::default()
    };
    spans("scopes of one span, resource of 128 KiB", vec![group])
}

fn resources(size: usize) -> Body {
    let group = |number: usize| ResourceSpans {
        resource: Some(Resource {
            attributes: vec![attribute("host.name", "node")],
            ..Resource::default()
        }),
        scope_spans: vec![ScopeSpans { spans: vec![span(number)], ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    };
    spans("resources of one span", (0..size / RESOURCE_BYTES).map(group).collect())
}

/// An element that is not UTF-8.
const MALFORMED: &[u8] = b"\x0a\x04\x1a\x02\xff\xfe";

fn malformed_resources(size: usize) -> Body {
    let mut body = resources(size / 4);
    let malformed = MALFORMED.repeat(size / 2 / MALFORMED.len());
    body.bytes = [&malformed[..], &body.bytes].concat();
    Body { name: "malformed resources before others", ..body }
}

fn empty_spans(size: usize) -> Body {
    // As many as may be decoded, and a name that fills the rest.
    let count = 20_000;
    let name = "n".repeat(size.saturating_sub(count * 2));
    let named = Span { name, ..Span::default() };
    let all = [vec![Span::default(); count], vec![named]].concat();
    let group = ResourceSpans {
        scope_spans: vec![ScopeSpans { spans: all, ..ScopeSpans::default() }],
        ..ResourceSpans::default()
    };
    spans("20,000 empty spans and a long name", vec![group])
}

fn json(name: &'static str, item: &str, size: usize) -> Body {
    let (start, end) = (
        r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","histogram":{"dataPoints":["#,
        r"{}]}}]}]}]}",
    );
    let items = item.repeat((size - start.len() - end.len()) / item.len());
    let bytes = [start, &items, end].concat().into_bytes();
    Body { name, signal: Signal::Metrics, is_json: true, bytes }
}

fn json_numbers(size: usize) -> Body {
    json("JSON: numbers", r#"{"bucketCounts":["1",1,1,1,1,1,1,1]},"#, size)
}

fn json_objects(size: usize) -> Body {
    json("JSON: objects of later versions", r#"{"later":[{"a":1},{},[]]},"#, size)
}
