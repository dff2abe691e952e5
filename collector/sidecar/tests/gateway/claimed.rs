//! Spans that arrive with a cost: that of a meter whose costs pass here, or of anyone.

use fake_nvml::Fake;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::command::post;
use crate::dcgm::{cost_of_agent, page_of_host, text};
use crate::mock_backend::MockBackend;
use crate::process::{self, Gateway};
use crate::span_requests::{ReceivedSpan, received_spans, span, traces};
use crate::spans::{base, send};
use crate::{GPU, NANO_USD, NANOS};

fn number(key: &str, value: f64) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::DoubleValue(value)) });
    KeyValue { key: format!("phasemeter.span.{key}"), value, ..KeyValue::default() }
}

fn cost(usd: f64) -> KeyValue {
    number("cost", usd)
}

fn with(mut span: Span, attributes: &[KeyValue]) -> Span {
    span.attributes.extend_from_slice(attributes);
    span
}

/// Scenario: beside an honest span, others of the same time claim a negative cost, a cost of an unknown
/// meter, one without a meter, or any other attribute of ours; one that is not chosen claims a cost, too, and so does one
/// with a resource that is too large to be held.
/// Guarantee: those that are chosen are priced as the honest one, none keeps what it claimed, and all are counted.
#[test]
fn claims_of_strangers_are_removed_and_their_spans_priced() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "llm_*", "--span-wait", "60"]);
    let base = base();
    send(&gateway.endpoint(), (0..=20).map(|i| page_of_host(GPU, "node-1", base + i, 50.0)));
    let meter = |name: &str| text("phasemeter.span.meter", name);
    let claims = [
        vec![],
        vec![cost(-1_000.0)],
        vec![cost(f64::NAN), meter("unknown")],
        vec![cost(0.0), meter("unknown")],
        vec![text("phasemeter.span.cost", "-1000"), meter("an agent")],
        vec![cost(1.0), cost(-1_000.0), meter("an agent")],
        vec![text("phasemeter.span.anything", "x")],
    ];
    // What an agent claims that bills another GPU here is true.
    send(&gateway.endpoint(), [cost_of_agent("GPU-other", base, base + 20, "an agent")]);
    let chosen = |(number, claims): (u64, &Vec<KeyValue>)| {
        with(span("llm_request", number, base, 0, 14 * NANOS), claims)
    };
    let honest: Vec<_> = (0..).zip(&claims).map(chosen).collect();
    let other = with(span("db_query", 50, base, 0, NANOS), &[cost(5.0), meter("unknown")]);
    let proved = [cost(5.0), number("gpu_seconds", 1.0), meter("an agent")];
    let known = with(span("db_query", 51, base, 0, NANOS), &proved);
    let host = ("host.name", "node-1");
    send(&gateway.endpoint(), [traces(&[host], &honest), traces(&[host], &[other, known])]);
    let large = "x".repeat(300 << 10);
    let of_large = with(span("llm_request", 60, base, 0, NANOS), &[cost(-1.0)]);
    send(&gateway.endpoint(), [traces(&[host, ("any", &large)], &[of_large])]);
    let (_, report) = gateway.stop();
    let received = received_spans(&backend.received());
    assert_eq!(received.len(), claims.len() + 3);
    for ReceivedSpan { span, added, price, .. } in &received {
        let costs = added.iter().filter(|it| it.key == "phasemeter.span.cost").count();
        let number = u64::from_be_bytes(span.span_id[..].try_into().unwrap()) - 1;
        match number {
            0..7 => {
                assert_eq!(price.unwrap().nano_usd, 2 * NANO_USD, "{number}");
                assert_eq!((costs, added.len()), (1, 4), "{added:?}");
            }
            51 => assert_eq!(added[..], proved),
            _ => assert_eq!(added[..], [], "{number}"),
        }
    }
    let sampling = report["sampling"].to_string();
    let removed = "7 spans arrived with phasemeter.span.* of no such meter, which were removed; from node-1 (7 spans)";
    assert!(sampling.contains(removed), "{sampling}");
    assert!(sampling.contains("from an agent (1 span)"), "{sampling}");
}

/// Scenario: `run` prices the span of its command, and sends it to a gateway that prices all spans.
/// Guarantee: it arrives with the price of `run`, unchanged, and the report counts it by that meter, although its first
/// costs may arrive after the span.
#[test]
fn span_that_a_sidecar_priced_passes_the_gateway_unchanged() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let directory = tempfile::tempdir().unwrap();
    let fake = Fake::install(directory.path(), process::ONE_GPU).unwrap();
    let span = r#"'{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"name":"train_step","traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","startTimeUnixNano":"'$from'","endTimeUnixNano":"'$to'"}]}]}]}'"#;
    let work =
        format!("from=$(date +%s%N); sleep 1; to=$(date +%s%N); {}", post("/v1/traces", span));
    let mut command = process::phasemeter(&backend);
    command.envs(fake.environment()).args(["run", "--price=3.6", "--price-spans", "train_*"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", gateway.endpoint());
    command.args(["--no-default-policies", "--", "bash", "-c", &work]);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "HTTP/1.1 200 OK", "{log}");
    let (_, report) = gateway.stop();
    let spans = received_spans(&backend.received());
    let [ReceivedSpan { span, price: Some(price), added, .. }] = &spans[..] else {
        panic!("{spans:?}: {log}");
    };
    let nanos = span.end_time_unix_nano - span.start_time_unix_nano;
    assert!(price.nano_usd.abs_diff(nanos / 1_000) <= 3, "{price:?} of {nanos} ns");
    let meter = added.iter().find(|it| it.key == "phasemeter.span.meter").unwrap();
    let Some(Value::StringValue(meter)) = meter.value.clone().unwrap().value else { panic!() };
    let sampling = report["sampling"].to_string();
    assert!(sampling.contains(&format!("from {meter} (")), "{sampling}");
    assert!(!sampling.contains("which were removed"), "{sampling}");
}
