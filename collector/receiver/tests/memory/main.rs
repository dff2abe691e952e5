//! The memory of requests, counted by the allocator: at most what is documented, and in proportion to their bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod counting;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::Signal;
use phasemeter_receiver::{
    ResourceView, SpanView, TakenSpans, accept_bytes, counter_points, held_requests, number_points,
    take_spans,
};
use prost::Message;

use crate::counting::{Counts, counted};

/// What is documented for a decoded part, and both forms of its body.
const MOST: usize = (48 + 3 * 20) << 20;

/// About the size of the largest request.
const LARGEST: usize = (20 << 20) - 1_024;

const MIB: usize = 1 << 20;

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// Spans of one resource, one in each scope.
fn spans(count: usize, resource: usize) -> ExportTraceServiceRequest {
    let span = |number: usize| Span {
        trace_id: vec![1; 16],
        span_id: number.to_be_bytes().to_vec(),
        name: "step".to_owned(),
        start_time_unix_nano: 1,
        end_time_unix_nano: 2,
        ..Span::default()
    };
    let scope = |number| ScopeSpans { spans: vec![span(number)], ..ScopeSpans::default() };
    let attributes = vec![attribute("host.name", &"h".repeat(resource))];
    let resource_spans = ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: (1..=count).map(scope).collect(),
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

/// Points of a counter, of a resource with attributes.
fn points(count: usize, attributes: usize) -> ExportMetricsServiceRequest {
    let point = NumberDataPoint {
        time_unix_nano: 1_700_000_000_000_000_000,
        value: Some(number_data_point::Value::AsDouble(0.5)),
        ..NumberDataPoint::default()
    };
    let sum = Sum {
        data_points: vec![point; count],
        aggregation_temporality: AggregationTemporality::Cumulative.into(),
        is_monotonic: true,
    };
    let metric = Metric { name: "m".to_owned(), data: Some(Data::Sum(sum)), ..Metric::default() };
    let attributes = (0..attributes).map(|n| attribute(&n.to_string(), "x")).collect();
    let resource_metrics = ResourceMetrics {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

/// The worst bodies of JSON, of about this many bytes.
fn json(bytes: usize) -> Vec<(&'static str, Signal, String)> {
    let points = |list: &str, item: &str| {
        let items = item.repeat(bytes / item.len());
        format!(
            "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"name\":\"m\",\"histogram\":\
             {{\"dataPoints\":[{{\"{list}\":[{items}1]}}]}}}}]}}]}}]}}"
        )
    };
    let spans = |item: &str| {
        let items = item.repeat(bytes / item.len());
        format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{items}{{}}]}}]}}]}}")
    };
    let value = |item: &str| {
        let items = item.repeat(bytes / item.len());
        spans(&format!(
            "{{\"attributes\":[{{\"value\":{{\"arrayValue\":{{\"values\":[{items}{{}}]}}}}}}]}},"
        ))
    };
    vec![
        ("numbers", Signal::Metrics, points("bucketCounts", "1,")),
        ("doubles", Signal::Metrics, points("explicitBounds", "1,")),
        ("texts", Signal::Metrics, points("bucketCounts", "\"1\",")),
        ("lists of a later version", Signal::Metrics, points("later", "[],")),
        ("objects of a later version", Signal::Metrics, points("later", "{\"a\":1},")),
        ("spans", Signal::Traces, spans("{},")),
        ("nulls", Signal::Traces, spans("{\"name\":null},")),
        ("values", Signal::Traces, value("{},")),
        ("not closed", Signal::Traces, "{\"resourceSpans\":[".repeat(bytes / 18)),
    ]
}

#[test]
fn json_takes_the_documented_memory() {
    for (name, signal, body) in json(LARGEST) {
        let Counts { peak, .. } =
            counted(|| drop(accept_bytes(signal, true, None, body.as_bytes())));
        println!("{name}: {} MiB", peak / MIB);
        assert!(peak < MOST, "{name}: {} MiB", peak / MIB);
    }
}

#[test]
fn malformed_elements_take_the_documented_memory() {
    for element in [&b"\x0a\x00"[..], b"\x0a\x04\x1a\x02\xff\xfe"] {
        let body = [&element.repeat(LARGEST / element.len() - 20)[..], b"\x0a\x00"].concat();
        let Counts { peak, .. } =
            counted(|| drop(accept_bytes(Signal::Traces, false, None, &body)));
        assert!(peak < MOST, "{} MiB", peak / MIB);
    }
}

/// Takes all spans out of a request, with the host of each, and builds the requests that they leave in.
fn take_all(body: &[u8]) -> (usize, usize) {
    let mut host = |resource: ResourceView<'_>| resource.text("host.name").map(String::from);
    let mut choose = |_: &SpanView<'_>, host: &Option<String>| Some(host.clone());
    let (mut count, mut left) = (0, 0);
    for received in accept_bytes(Signal::Traces, false, None, body).unwrap() {
        let TakenSpans { rest, spans, .. } =
            take_spans(received, "phasemeter.span.", &mut host, &mut choose);
        left += rest.map_or(0, |rest| rest.body().len());
        count += spans.len();
        let spans = spans.into_iter().map(|(span, _)| (span, Vec::new()));
        held_requests(spans, MIB, &mut |request| left += request.body.len());
    }
    (count, left)
}

/// Guarantee: what leaves has the bytes of what arrived, and takes memory in proportion, whatever the size of the
/// resource that spans have in common.
#[test]
fn spans_of_one_resource_share_it() {
    for resource in [100, 200 << 10, 2 * MIB] {
        let body = spans(20_000, resource).encode_to_vec();
        let mut taken = (0, 0);
        let Counts { peak, .. } = counted(|| taken = take_all(&body));
        let (count, left) = taken;
        assert_eq!(count, if resource > MIB { 0 } else { 20_000 });
        assert!(left < 2 * body.len(), "{} bytes became {left}", body.len());
        assert!(peak < MOST, "{resource}: {} MiB", peak / MIB);
    }
}

/// Guarantee: twice the points of twice the attributes take twice the memory, in all.
#[test]
fn points_take_memory_in_proportion_to_the_request() {
    let total = |scale: usize| {
        let body = points(1_000 * scale, 2_000 * scale).encode_to_vec();
        let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
        let mut visited = 0;
        let Counts { total, .. } = counted(|| {
            let is_wanted = |_: &str, _: &str| true;
            number_points(&request, is_wanted, |point| {
                assert_eq!((point.label("1"), point.label("none")), (Some("x"), None));
                visited += 1;
            });
            counter_points(
                &request,
                |_| true,
                |point| {
                    assert_ne!(point.stream(), [0; 16]);
                    visited += 1;
                },
            );
        });
        assert_eq!(visited, 2_000 * scale);
        total
    };
    let [one, two, four] = [1, 2, 4].map(total);
    assert!(two < one * 5 / 2 && four < one * 5, "{one}, {two}, {four} bytes");
}
