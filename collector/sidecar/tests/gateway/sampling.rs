//! Spans of requests of which only a part is sampled have the cost that they have if all are sent.
//!
//! Scenario: GPU readings as metrics, and the spans of a server whose SDK samples by consistent probability.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_otlp::EncodedRequest;

use crate::NANOS;
use crate::mock_backend::MockBackend;
use crate::process::Gateway;
use crate::span_requests::{span, traces};
use crate::spans::{Sums, assert_sums, base, readings, send};

/// Twenty requests from 10 s to 30 s, and forty from 20 s to 50 s.
fn requests(base: u64) -> Vec<Span> {
    let first = (0..20).map(|number| (number, 10, 30));
    let second = (20..60).map(|number| (number, 20, 50));
    let request = |(number, from, to)| span("llm_request", number, base, from * NANOS, to * NANOS);
    first.chain(second).map(request).collect()
}

fn with_state(spans: &[Span], trace_state: &str) -> Vec<Span> {
    let state = |span: &Span| Span { trace_state: trace_state.to_owned(), ..span.clone() };
    spans.iter().map(state).collect()
}

/// What these spans cost in nano-dollars, by ID; what the others cost that they represent; and the sentences of
/// the report.
fn costs(base: u64, spans: &[Span]) -> (BTreeMap<Vec<u8>, u64>, u64, String) {
    let backend = MockBackend::start([]);
    let options = ["--price-spans", "llm_*", "--span-all-gpus", "--hold", "1"];
    let gateway = Gateway::start(&backend, &options);
    send(&gateway.endpoint(), [traces(&[], spans)]);
    send(&gateway.endpoint(), readings(base).collect::<Vec<EncodedRequest>>());
    let (_, report) = gateway.stop();
    let Sums { prices, unsampled, .. } = assert_sums(&backend.received(), &report);
    let prices = prices.into_iter().map(|(id, price)| (id, price.nano_usd)).collect();
    (prices, unsampled, report["sampling"].to_string())
}

/// Guarantee: whatever part of the requests is sampled, a request costs the same, to 1 in 4,000; the rest of the time is
/// that of requests that were not sampled.
#[test]
fn sampled_request_costs_what_it_costs_beside_all() {
    let base = base();
    let all = requests(base);
    let (expected, unsampled, sentences) = costs(base, &all);
    assert_eq!((expected.len(), unsampled), (60, 0));
    assert!(sentences.contains("60 spans have no sampling threshold"), "{sentences}");
    let every = |n: usize| all.iter().step_by(n).cloned().collect::<Vec<_>>();
    let quarter = with_state(&every(4), "ot=th:c");
    let tenth = with_state(&every(10), "vendor=1,ot=rv:ffffffffffffff;th:e6666666666668");
    let always = with_state(&all, "ot=th:0");
    for spans in [quarter, tenth, always] {
        let (found, unsampled, sentences) = costs(base, &spans);
        assert_eq!(found.len(), spans.len());
        for (id, cost) in &found {
            let (cost, expected) = (*cost as f64, expected[id] as f64);
            assert!((cost - expected).abs() < expected / 4_000.0, "{cost} {expected}");
        }
        // To the nano-dollar.
        assert_eq!(found.values().sum::<u64>() + unsampled, expected.values().sum::<u64>());
        assert!(!sentences.contains("sampling threshold"), "{sentences}");
    }
    // Malformed: how many were not sampled is unknown, and the report states what that does.
    let (found, unsampled, sentences) = costs(base, &with_state(&every(4), "ot=th:C"));
    assert_eq!(unsampled, 0);
    assert_eq!(found.values().sum::<u64>(), expected.values().sum::<u64>());
    assert!(sentences.contains("15 spans have no sampling threshold"), "{sentences}");
}
