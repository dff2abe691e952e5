//! Requests of spans as workloads send them, and the spans that a backend received.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::{EncodedRequest, Signal};
use prost::Message;

use crate::dcgm::text;
use crate::mock_backend::ReceivedRequest;
use crate::{NANOS, body};

/// The prefix of what Phasemeter adds to a span.
const PRICE: &str = "phasemeter.span.";

/// A span of a workload, in nanoseconds from `base`. The number is its ID.
pub(crate) fn span(name: &str, number: u64, base: u64, from: u64, to: u64) -> Span {
    Span {
        trace_id: [(number / 100 + 1).to_be_bytes(), [7; 8]].concat(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: name.to_owned(),
        start_time_unix_nano: base * NANOS + from,
        end_time_unix_nano: base * NANOS + to,
        attributes: vec![text("model", "llama")],
        ..Span::default()
    }
}

pub(crate) fn with_tokens(mut span: Span, tokens: i64) -> Span {
    let value = Some(AnyValue { value: Some(Value::IntValue(tokens)) });
    let key = "gen_ai.usage.output_tokens".to_owned();
    span.attributes.push(KeyValue { key, value, ..KeyValue::default() });
    span
}

/// A request of these spans, by a resource with these attributes.
pub(crate) fn traces(resource: &[(&str, &str)], spans: &[Span]) -> EncodedRequest {
    let attributes = resource.iter().map(|(key, value)| text(key, value)).collect();
    let scope = InstrumentationScope { name: "server".to_owned(), ..Default::default() };
    let scope_spans =
        ScopeSpans { scope: Some(scope), spans: spans.to_vec(), ..ScopeSpans::default() };
    let group = ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans: vec![group] })
}

/// A span that was received: as it was sent, and what was added.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) host: Option<String>,
    pub(crate) span: Span,
    pub(crate) added: Vec<KeyValue>,
    pub(crate) price: Option<Price>,
}

/// The price of a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Price {
    pub(crate) nano_usd: u64,
    pub(crate) gpu_seconds: f64,
    pub(crate) utilization: Option<f64>,
}

/// The price among attributes.
pub(crate) fn price(attributes: &[KeyValue]) -> Option<Price> {
    let number = |key: &str| {
        let key = format!("{PRICE}{key}");
        let found = attributes.iter().find(|it| it.key == key)?;
        match found.value.as_ref()?.value.as_ref()? {
            Value::DoubleValue(number) => Some(*number),
            other => panic!("{key}: {other:?}"),
        }
    };
    let nano_usd = (number("cost")? * 1e9).round() as u64;
    let gpu_seconds = number("gpu_seconds").unwrap();
    Some(Price { nano_usd, gpu_seconds, utilization: number("utilization") })
}

/// How many costs of spans follow them among these requests.
pub(crate) fn received_costs(requests: &[ReceivedRequest]) -> usize {
    let logs = requests.iter().filter(|it| it.path == Signal::Logs.grpc_method());
    let logs = logs.map(|it| ExportLogsServiceRequest::decode(body(it)).unwrap());
    let scopes = logs.flat_map(|it| it.resource_logs).flat_map(|it| it.scope_logs);
    let records = scopes.flat_map(|it| it.log_records);
    records.filter(|it| it.event_name == "phasemeter.span.priced").count()
}

/// The spans of workloads among these requests, in order of arrival.
pub(crate) fn received_spans(requests: &[ReceivedRequest]) -> Vec<ReceivedSpan> {
    let traces = requests.iter().filter(|it| it.path == Signal::Traces.grpc_method());
    let traces = traces.map(|it| ExportTraceServiceRequest::decode(body(it)).unwrap());
    let mut spans = Vec::new();
    for group in traces.flat_map(|it| it.resource_spans) {
        let attributes = group.resource.map(|it| it.attributes).unwrap_or_default();
        let host = attributes.iter().find(|it| it.key == "host.name");
        let host = host.and_then(|it| match it.value.as_ref()?.value.as_ref()? {
            Value::StringValue(host) => Some(host.clone()),
            _ => None,
        });
        for scope in group.scope_spans {
            if scope.scope.is_some_and(|scope| scope.name == "phasemeter") {
                continue;
            }
            for mut span in scope.spans {
                let price = price(&span.attributes);
                let is_added = |it: &mut KeyValue| it.key.starts_with(PRICE);
                let added = span.attributes.extract_if(.., is_added).collect();
                spans.push(ReceivedSpan { host: host.clone(), span, added, price });
            }
        }
    }
    spans
}
