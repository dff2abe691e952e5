//! What a gateway sends is what the registry defines, in both directions.

use std::path::Path;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_otlp::Signal;
use prost::Message;

use crate::dcgm::{START, full_page};
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::process::{Gateway, client};
use crate::registry::model::Registry;
use crate::registry::wire::WireCheck;
use crate::span_requests::{received_spans, span, traces};
use crate::spans::base;
use crate::work::labeled;
use crate::{GPU, NANOS, SOON, body, metered_requests};

/// Scenario: GPU metrics with a pause, tokens of a server that names its GPU and model, a span that is priced, and one for which memory does not suffice.
/// Guarantee: what Phasemeter adds and sends is defined as it is sent, and what is defined is sent.
#[test]
fn gateway_sends_what_the_registry_defines() {
    let registry = Registry::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let backend = MockBackend::start([]);
    let options =
        ["--price-spans", "step", "--span-all-gpus", "--span-memory", "1", "--missing", "absent"];
    let gateway = Gateway::start(&backend, &options);
    let base = base();
    // Two of them do not fit.
    let large = |number| Span {
        trace_state: "x".repeat(700_000),
        ..span("step", number, base, 3 * NANOS, 20 * NANOS)
    };
    let client = client(&gateway.endpoint());
    (0..2).for_each(|number| client.enqueue(traces(&[], &[large(number)])));
    let labels = [("model_name", "llama"), ("gpu_uuid", GPU)];
    for (at, tokens) in [(0, 100.0), (10, 700.0)] {
        let at = base - START + at;
        client.enqueue(labeled("vllm", "vllm:generation_tokens_total", &labels, at, tokens));
    }
    for second in (0..30).chain(50..60) {
        client.enqueue(full_page(GPU, base + second, 60.0));
    }
    assert!(client.flush(SOON).all_sent());
    gateway.stop();
    let requests = backend.received();

    let mut check = WireCheck::new(&registry, "gateway");
    check.captured(&metered_requests(&requests));
    for metric in own_telemetry(&requests) {
        check.metric(&metric);
    }
    let priced = received_spans(&requests).into_iter().filter(|it| it.price.is_some());
    priced.for_each(|it| check.priced_span(&it.added));
    let problems = check.finish();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// The gateway's telemetry of itself that a run does not have.
fn own_telemetry(requests: &[ReceivedRequest]) -> Vec<Metric> {
    let is_metrics = |it: &&ReceivedRequest| it.path == Signal::Metrics.grpc_method();
    let groups = requests.iter().filter(is_metrics).flat_map(|request| {
        ExportMetricsServiceRequest::decode(body(request)).unwrap().resource_metrics
    });
    let metrics = groups.flat_map(|group| group.scope_metrics).flat_map(|scope| scope.metrics);
    let is_of_gateway = |metric: &Metric| {
        ["phasemeter.gateway.", "phasemeter.receiver."].iter().any(|it| metric.name.starts_with(it))
    };
    metrics.filter(is_of_gateway).collect()
}
