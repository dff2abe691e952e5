//! Splits a large request into smaller ones: between its resources, else between scopes of one, else between items of
//! one scope, else between points of one metric.
//!
//! Most servers reject requests of more than 4 MiB, and each part is decoded by itself, so that memory does not grow with
//! the request.

use super::limits::Limits;
use phasemeter_otlp::Signal;
use phasemeter_otlp::wire::{FIELD_BYTES, Field, fields, push_field, without};

/// The tags of what is in a request, a resource, a scope, a metric and the data of a metric.
const ITEMS: &[&[u32]] = &[&[1], &[2], &[2]];
const POINTS: &[&[u32]] = &[&[1], &[2], &[2], &[5, 7, 9, 10, 11], &[1]];

/// What is left for a part of a message.
#[derive(Clone, Copy)]
struct Space {
    /// Its bytes.
    bytes: usize,
    /// Of those, what every part may repeat, so that all parts together are at most a third larger than the request.
    repeated: usize,
}

/// The requests of at most [`Limits::part_bytes`] that a request is split into, in order; larger only if a single item
/// is, or what its items have in common. One that is not larger, or cannot be split, keeps its bytes.
pub(super) fn split(signal: Signal, body: Vec<u8>, limits: &Limits) -> Vec<Vec<u8>> {
    let bytes = limits.part_bytes;
    if body.len() <= bytes {
        return vec![body];
    }
    let levels = match signal {
        Signal::Metrics => POINTS,
        Signal::Traces | Signal::Logs => ITEMS,
    };
    match parts(&body, levels, Space { bytes, repeated: bytes / 4 }) {
        Some(parts) if parts.len() > 1 => parts,
        _ => vec![body],
    }
}

/// The parts of a message, each with the fields that are in no level; `None` if it cannot be split.
fn parts(message: &[u8], levels: &[&[u32]], space: Space) -> Option<Vec<Vec<u8>>> {
    let (tags, inner) = levels.split_first()?;
    let head = without(message, tags)?;
    let repeated = space.repeated.checked_sub(head.len())?;
    let in_field = Space { bytes: space.bytes.checked_sub(head.len() + FIELD_BYTES)?, repeated };
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut add = |field: &[u8]| {
        if part.len() > head.len() && part.len() + field.len() > space.bytes {
            parts.push(std::mem::take(&mut part));
        }
        if part.is_empty() {
            part.extend_from_slice(&head);
        }
        part.extend_from_slice(field);
    };
    for field in fields(message) {
        let Field { tag, whole, value } = field?;
        let Some(value) = value.filter(|_| tags.contains(&tag)) else { continue };
        let is_large = whole.len() > in_field.bytes;
        let Some(inner) = is_large.then(|| self::parts(value, inner, in_field)).flatten() else {
            add(whole);
            continue;
        };
        for value in inner {
            let mut field = Vec::with_capacity(value.len() + FIELD_BYTES);
            push_field(tag, &value, &mut field);
            add(&field);
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    Some(parts)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    };
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn limits(part_bytes: usize) -> Limits {
        Limits { part_bytes, ..Limits::default() }
    }

    /// The spans of a request, each with the names of its resource and its scope.
    fn spans(request: &ExportTraceServiceRequest) -> Vec<(String, String, Span)> {
        let mut spans = Vec::new();
        for group in &request.resource_spans {
            for scope in &group.scope_spans {
                let name = &scope.scope.as_ref().unwrap().name;
                let of = |span: &Span| (group.schema_url.clone(), name.clone(), span.clone());
                spans.extend(scope.spans.iter().map(of));
            }
        }
        spans
    }

    fn request(lengths: &[Vec<Vec<usize>>], name: usize) -> ExportTraceServiceRequest {
        let span = |length: &usize| Span { name: "s".repeat(*length), ..Span::default() };
        let scope = |(index, lengths): (usize, &Vec<usize>)| ScopeSpans {
            scope: Some(InstrumentationScope { name: format!("s{index}"), ..Default::default() }),
            spans: lengths.iter().map(span).collect(),
            ..ScopeSpans::default()
        };
        let group = |(index, scopes): (usize, &Vec<Vec<usize>>)| ResourceSpans {
            scope_spans: scopes.iter().enumerate().map(scope).collect(),
            schema_url: format!("{}{index}", "r".repeat(name)),
            ..ResourceSpans::default()
        };
        let resource_spans = lengths.iter().enumerate().map(group).collect();
        ExportTraceServiceRequest { resource_spans }
    }

    proptest! {
        /// Guarantee: the parts have the same spans in order, each under its resource and scope; each fits, unless it
        /// is a single span, or a resource that is too large to be repeated; together they are a third larger at most.
        #[test]
        fn parts_fit_and_are_the_request(
            lengths in prop::collection::vec(prop::collection::vec(
                prop::collection::vec(0..120_usize, 1..12), 1..4), 1..5),
            name in 0..60_usize,
            max in 100..500_usize,
        ) {
            let whole = request(&lengths, name);
            let body = whole.encode_to_vec();
            let parts = split(Signal::Traces, body.clone(), &limits(max));
            let decoded = |part: &Vec<u8>| ExportTraceServiceRequest::decode(&part[..]).unwrap();
            let found: Vec<_> = parts.iter().flat_map(|part| spans(&decoded(part))).collect();
            prop_assert_eq!(found, spans(&whole));
            for part in &parts {
                let is_single = spans(&decoded(part)).len() <= 1;
                let is_common = name + 12 > max / 4;
                prop_assert!(part.len() <= max || is_single || is_common, "{} of {max}", part.len());
            }
            let sum: usize = parts.iter().map(Vec::len).sum();
            // Lengths of fields take more where they are repeated.
            prop_assert!(sum <= body.len() * 4 / 3 + parts.len() * 4 * FIELD_BYTES, "{sum}");
            if body.len() <= max {
                prop_assert_eq!(parts, [body]);
            }
        }

        /// Guarantee: what is malformed is in some part, however it is.
        #[test]
        fn no_byte_of_a_malformed_request_is_lost(
            mut body in prop::collection::vec(any::<u8>(), 30..200),
            valid in any::<bool>(),
            at in 0..200_usize,
            flip in any::<u8>(),
        ) {
            if valid {
                body = request(&vec![vec![vec![20; 5]; 2]; 2], 1).encode_to_vec();
                let length = body.len();
                body[at % length] ^= flip;
            }
            let parts = split(Signal::Traces, body.clone(), &limits(64));
            prop_assert!(parts.iter().map(Vec::len).sum::<usize>() >= body.len());
        }
    }

    #[test]
    fn metric_is_split_between_its_points() {
        let point = |n: usize| NumberDataPoint { time_unix_nano: n as u64, ..Default::default() };
        let data_points = (1..=1_000).map(point).collect();
        let metric = Metric {
            name: "m".to_owned(),
            data: Some(Data::Gauge(Gauge { data_points })),
            ..Metric::default()
        };
        let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..Default::default() }];
        let group = ResourceMetrics { scope_metrics, ..ResourceMetrics::default() };
        let body = ExportMetricsServiceRequest { resource_metrics: vec![group] }.encode_to_vec();
        let parts = split(Signal::Metrics, body, &limits(1_000));
        let mut times = Vec::new();
        for part in &parts {
            assert!(part.len() <= 1_000);
            let request = ExportMetricsServiceRequest::decode(&part[..]).unwrap();
            let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
            let Some(Data::Gauge(gauge)) = &metric.data else { panic!() };
            assert_eq!(metric.name, "m");
            times.extend(gauge.data_points.iter().map(|point| point.time_unix_nano));
        }
        assert!(parts.len() > 10 && times.iter().copied().eq(1..=1_000));
    }
}
