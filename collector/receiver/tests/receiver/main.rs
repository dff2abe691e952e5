//! The receiver, over sockets: all transports, limits, and clients that do not behave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod addresses;
mod capacity;
mod connections;
mod raw;
mod rejections;

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::delivery::{Client, Config, Destination};
use phasemeter_otlp::{EncodedRequest, Request, Signal};
use phasemeter_receiver::{Limits, Receiver, ReceiverConfig};
use prost::Message;

use crate::raw::{PROTOBUF, Reply, post};

/// Deadline of what happens at once.
const SOON: Duration = Duration::from_secs(60);

/// Limits with timeouts that a test can wait for.
fn limits() -> Limits {
    Limits {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn start(limits: Limits) -> (Receiver, mpsc::Receiver<EncodedRequest>, String) {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let config = ReceiverConfig { listen, limits, ..ReceiverConfig::default() };
    let (receiver, received) = Receiver::start(config).unwrap();
    let address = receiver.addresses()[0].to_string();
    (receiver, received, address)
}

fn spans(count: usize) -> ExportTraceServiceRequest {
    let span = |i: usize| Span {
        trace_id: vec![1; 16],
        span_id: (i as u64 + 1).to_be_bytes().to_vec(),
        name: format!("step {i}"),
        start_time_unix_nano: 1_000 + i as u64,
        end_time_unix_nano: 2_000 + i as u64,
        ..Span::default()
    };
    let scope_spans = ScopeSpans { spans: (0..count).map(span).collect(), ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource] }
}

/// Sends requests with Phasemeter's own client, configured by these variables.
fn client(variables: &[(&str, &str)]) -> Client {
    let find = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Client::start(&Config::read(Destination::Environment, find).unwrap().unwrap()).unwrap()
}

fn is_grpc_and_unix(path: &Path) -> [(&'static str, String); 2] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("unix:{}", path.display())),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
    ]
}
#[test]
fn every_transport_delivers_the_same_bytes_in_order() {
    let (_receiver, received, address) = start(Limits::default());
    let endpoint = format!("http://{address}");
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        for compression in ["none", "gzip"] {
            let client = client(&[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", compression),
            ]);
            let requests: Vec<_> = (1..20).map(|n| EncodedRequest::traces(&spans(n))).collect();
            requests.iter().for_each(|request| client.enqueue(request.clone()));
            let outcome = client.flush(SOON);
            assert!(outcome.all_sent(), "{protocol} {compression}: {outcome:?}");
            for sent in requests {
                let request = received.recv_timeout(SOON).unwrap();
                assert_eq!((request.signal(), request.items()), (Signal::Traces, sent.items()));
                assert_eq!(request.body(), sent.body(), "{protocol} {compression}");
                let Ok(Request::Traces(decoded)) = request.decode() else { panic!() };
                assert_eq!(&decoded.encode_to_vec()[..], &sent.body()[..]);
            }
        }
    }
}

#[test]
fn zstd_and_each_signal_are_accepted() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let (_receiver, received, address) = start(Limits::default());
    let body = spans(50).encode_to_vec();
    let smaller = compress_to_vec(&body[..], CompressionLevel::Fastest);
    let reply = post(&address, "/v1/traces", &[PROTOBUF, "content-encoding: zstd"], &smaller);
    assert_eq!(reply.status, 200);
    assert_eq!(received.recv_timeout(SOON).unwrap().body(), &body);
    // A metric and a log record, each with one point, as JSON that SDKs send.
    let metrics = br#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":
        {"dataPoints":[{"timeUnixNano":"1700000000000000000","asDouble":0.5}]}}]}]}]}"#;
    let logs =
        br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","severityNumber":9,
        "body":{"stringValue":"hello"}}]}]}]}"#;
    for (path, body) in [("/v1/metrics", &metrics[..]), ("/v1/logs", &logs[..])] {
        let reply = post(&address, path, &["content-type: application/json; charset=utf-8"], body);
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"{}"[..]), "{path}");
        assert_eq!(received.recv_timeout(SOON).unwrap().items(), 1);
    }
}

#[test]
fn json_of_the_protocol_example_is_read() {
    let (_receiver, received, address) = start(Limits::default());
    let body = br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":
        {"stringValue":"my.service"}}]},"scopeSpans":[{"scope":{"name":"my.library","version":"1.0.0"},
        "spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174",
        "parentSpanId":"EEE19B7EC3C1B173","name":"I'm a server span",
        "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","kind":2,
        "attributes":[{"key":"my.span.attr","value":{"stringValue":"some value"}}]}]}]}]}"#;
    let reply = post(&address, "/v1/traces", &["content-type: application/json"], body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let Ok(Request::Traces(request)) = received.recv_timeout(SOON).unwrap().decode() else {
        panic!()
    };
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.trace_id[0], span.start_time_unix_nano), (0x5b, 1_544_712_660_000_000_000));
}

#[test]
fn reply_of_test_client_is_parsed() {
    let reply = Reply::parse(b"HTTP/1.1 429 x\r\nRetry-After: 1\r\n\r\nbody");
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1".to_owned())));
    assert_eq!(reply.body, b"body");
}
