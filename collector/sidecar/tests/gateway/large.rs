//! Requests that are larger than what backends accept.

use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client_of};
use crate::span_requests::{received_spans, span, traces};
use crate::{SOON, body};

/// The largest request that leaves.
const PART: usize = 1 << 20;

/// Spans with captured prompts, 6.1 MB together.
fn spans() -> Vec<opentelemetry_proto::tonic::trace::v1::Span> {
    let with_prompt = |number: u64| {
        let mut span = span("chat", number, 1_700_000_000, number, number + 1);
        let prompt = format!("{number} ").repeat(6_100_000 / 250 / 4);
        span.attributes.push(crate::dcgm::text("gen_ai.input.messages", &prompt));
        span
    };
    (100..350).map(with_prompt).collect()
}

/// Scenario: an SDK sends a batch of 6.1 MB by each protocol, compressed and not, and a span of 3 MiB. The backend
/// accepts 4 MiB, as gRPC servers do.
/// Guarantee: all spans arrive, in order and unchanged, in requests of at most 1 MiB; a larger span arrives alone.
#[test]
fn large_batch_arrives_whole_at_a_backend_that_accepts_less() {
    let batch = spans();
    let mut large = span("huge", 1_000, 1_700_000_000, 0, 1);
    large.attributes.push(crate::dcgm::text("gen_ai.input.messages", &"x".repeat(3 << 20)));
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        for compression in ["none", "gzip"] {
            let backend = MockBackend::start([]);
            let gateway = Gateway::start(&backend, &[]);
            let client = client_of(&gateway.endpoint(), protocol, compression);
            let mut sent = batch.clone();
            sent.insert(100, large.clone());
            let request = traces(&[("service.name", "llm")], &sent);
            assert!(request.body().len() > 9_000_000);
            client.enqueue(request);
            assert!(client.flush(SOON).all_sent(), "{protocol} {compression}");
            let (_, report) = gateway.stop();
            let received = backend.received();
            let arrived: Vec<_> = received_spans(&received).into_iter().map(|it| it.span).collect();
            assert!(
                arrived == sent,
                "{protocol} {compression}: {} spans: {report:#}",
                arrived.len()
            );
            for request in received.iter().filter(|it| body(it).len() > PART) {
                assert_eq!(received_spans(std::slice::from_ref(request)).len(), 1);
            }
            assert_eq!(received.iter().filter(|it| body(it).len() > PART).count(), 1);
        }
    }
}

/// Scenario: a batch exceeds `--max-request-body-size`.
/// Guarantee: it is rejected, and the client is given the limit and the option.
#[test]
fn batch_over_the_limit_is_rejected_with_the_limit() {
    for protocol in ["grpc", "http/protobuf"] {
        let backend = MockBackend::start([]);
        let gateway = Gateway::start(&backend, &["--max-request-body-size", "5"]);
        let client = client_of(&gateway.endpoint(), protocol, "none");
        client.enqueue(traces(&[], &spans()));
        let outcome = client.flush(SOON);
        assert_eq!(outcome.traces.rejected.requests, 1, "{protocol}: {outcome:?}");
        let reason = outcome.traces.last_error.clone().unwrap_or_default();
        let expected =
            "larger than 5242880 bytes; send smaller batches, or raise --max-request-body-size";
        assert!(reason.contains(expected), "{protocol}: {reason}");
        gateway.stop();
        assert!(received_spans(&backend.received()).is_empty());
    }
}
