//! The client with a real server: what is delivered, and counted as undelivered.

#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

#[path = "../mock_backend/mod.rs"]
mod mock_backend;
mod network;
#[path = "../../../../tests/relay/mod.rs"]
mod relay;
mod retry;
mod storage;
mod tls;

use std::io::Read;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use mock_backend::{MockBackend, ReceivedRequest, Reply};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::delivery::{
    Batching, Client, Config, Count, DeliveryCounts, Destination, Outcome, Retry,
};
use phasemeter_otlp::{EncodedRequest, Signal};
use tempfile::TempDir;

/// Longer than any test takes, so that the grace period never ends first.
const GRACE: Duration = Duration::from_secs(60);
/// No grace period: unsent data stays unsent.
const AT_ONCE: Duration = Duration::ZERO;

/// A configuration with this endpoint and these settings.
fn config(endpoint: &str, more: &[(&str, &str)]) -> Config {
    let env = |name: &str| {
        let name = name.strip_prefix("OTEL_EXPORTER_OTLP_")?;
        let set = more.iter().find(|(key, _)| *key == name);
        set.map(|(_, value)| (*value).to_owned())
    };
    let mut config = Config::read(Destination::Endpoint(endpoint), env).unwrap().unwrap();
    let brief = Duration::from_millis(2);
    config.retry = Retry { initial_interval: brief, max_interval: brief };
    config
}

/// Both protocols by name.
const PROTOCOLS: [&str; 2] = ["grpc", "http/protobuf"];

fn plain(backend: &MockBackend, protocol: &str) -> Config {
    config(&format!("http://{}", backend.address), &[("PROTOCOL", protocol)])
}

/// A request with this many spans.
fn spans(name: &str, number: usize) -> EncodedRequest {
    let span = Span { name: name.to_owned(), ..Span::default() };
    let scope_spans = vec![ScopeSpans { spans: vec![span; number], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans })
}

fn points(number: usize) -> EncodedRequest {
    let data_points = vec![NumberDataPoint::default(); number];
    let data = Some(Data::Gauge(Gauge { data_points }));
    let metrics = vec![Metric { name: "m".to_owned(), data, ..Metric::default() }];
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics })
}

fn records(number: usize) -> EncodedRequest {
    let log_records = vec![LogRecord::default(); number];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    EncodedRequest::logs(&ExportLogsServiceRequest { resource_logs })
}

/// Scenario: 10,000 requests of a service arrive while the first one is on its way.
/// Guarantee: they leave as one, so that a round trip costs the time of one request, and as they arrived.
#[test]
fn small_requests_that_arrive_meanwhile_leave_as_one() {
    let ((release, held), (enter, entered)) = (mpsc::channel::<()>(), mpsc::channel());
    let backend = MockBackend::deciding(move |_| {
        enter.send(()).unwrap();
        let _ = held.recv();
        Reply::Accept
    });
    let mut config = plain(&backend, "grpc");
    config.batching = Batching::PASS_THROUGH;
    let client = Client::start(&config).unwrap();
    let sent: Vec<_> = (0..10_000).map(|number| spans(&number.to_string(), 1)).collect();
    client.enqueue(sent[0].clone());
    entered.recv().unwrap();
    sent[1..].iter().for_each(|request| client.enqueue(request.clone()));
    drop(release);
    let outcome = client.flush(GRACE);
    assert!(outcome.all_sent());
    assert_eq!(outcome.traces.sent.requests, 10_000);
    let [first, second] = &backend.received()[..] else { panic!("two requests") };
    assert_eq!(&first.body[5..], &sent[0].body()[..]);
    let expected: Vec<u8> = sent[1..].iter().flat_map(|it| it.body().to_vec()).collect();
    assert!(second.body[5..] == expected);
}

/// Scenario: 1,000 GPUs are found at once.
/// Guarantee: their events leave in two requests at most.
#[test]
fn events_leave_together() {
    let ((release, held), (enter, entered)) = (mpsc::channel::<()>(), mpsc::channel());
    let backend = MockBackend::deciding(move |_| {
        enter.send(()).unwrap();
        let _ = held.recv();
        Reply::Accept
    });
    let client = Client::start(&plain(&backend, "grpc")).unwrap();
    client.enqueue(records(1));
    entered.recv().unwrap();
    (1..1_000).for_each(|_| client.enqueue(records(1)));
    drop(release);
    let outcome = client.flush(GRACE);
    assert_eq!(outcome.logs.sent.items, 1_000);
    assert_eq!(backend.received().len(), 2);
}

/// Sends one request of three spans with a new client.
fn send(config: &Config) -> DeliveryCounts {
    let client = Client::start(config).unwrap();
    client.enqueue(spans("step", 3));
    client.flush(GRACE).traces
}

fn items(counts: &DeliveryCounts) -> [u64; 5] {
    let partially_rejected = counts.partially_rejected;
    let [sent, rejected, dropped, unsent] =
        [counts.sent, counts.rejected, counts.dropped, counts.unsent].map(|count| count.items);
    [sent, partially_rejected, rejected, dropped, unsent]
}

/// Waits for the client's thread.
fn until(client: &Client, done: impl Fn(&Outcome) -> bool) {
    let started = Instant::now();
    while !done(&client.stats().read()) {
        assert!(started.elapsed() < GRACE, "{:?}", client.stats().read());
        std::thread::yield_now();
    }
}

/// The body without gRPC framing.
fn unframed(request: &ReceivedRequest) -> &[u8] {
    &request.body[5..]
}

#[test]
fn all_signals_are_delivered_unchanged() {
    for protocol in PROTOCOLS {
        let backend = MockBackend::start([]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        let exports = [spans("step", 3), points(2), records(4)];
        for export in exports.clone() {
            client.enqueue(export);
        }
        let stats = client.stats();
        let outcome = client.flush(GRACE);
        assert!(outcome.all_sent(), "{outcome:?}");
        assert_eq!(outcome, stats.read());
        for (export, (signal, counts)) in exports.iter().zip(outcome.iter()) {
            assert_eq!(export.signal(), signal);
            let bytes = export.body().len() as u64;
            assert_eq!(counts.sent, Count { requests: 1, items: export.items(), bytes });
        }
        let mut arrived = backend.received();
        assert_eq!(arrived.len(), 3);
        arrived.sort_by_key(|request| request.path.clone());
        let paths: Vec<&str> = arrived.iter().map(|request| request.path.as_str()).collect();
        let [logs, metrics, traces] = arrived.as_slice() else { unreachable!() };
        for (request, export) in
            [(traces, &exports[0]), (metrics, &exports[1]), (logs, &exports[2])]
        {
            let body = if protocol == "grpc" { unframed(request) } else { &request.body };
            assert_eq!(body, export.body());
        }
        match protocol {
            "grpc" => assert!(paths[2].ends_with("trace.v1.TraceService/Export"), "{paths:?}"),
            _ => assert_eq!(paths, ["/v1/logs", "/v1/metrics", "/v1/traces"]),
        }
    }
}

#[test]
fn json_is_sent_as_the_file_has_it() {
    let reply = "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"old\"}}";
    for compression in ["none", "gzip"] {
        let backend = MockBackend::start([Reply::Json(reply)]);
        let more = [("PROTOCOL", "http/json"), ("COMPRESSION", compression)];
        let client = Client::start(&config(&format!("http://{}", backend.address), &more)).unwrap();
        client.enqueue(spans("step", 2));
        let counts = client.flush(GRACE).traces;
        assert_eq!((counts.sent.items, counts.partially_rejected), (1, 1), "{counts:?}");
        let request = backend.next_request();
        assert_eq!(request.headers["content-type"], "application/json");
        let mut body = String::new();
        match compression {
            "gzip" => GzDecoder::new(&*request.body).read_to_string(&mut body),
            _ => request.body.as_ref().read_to_string(&mut body),
        }
        .unwrap();
        let json = "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":\"step\"},\
                    {\"name\":\"step\"}]}]}]}";
        assert_eq!(body, json);
    }
}

#[test]
fn full_queue_drops_oldest_without_blocking() {
    let backend = MockBackend::start([Reply::NoResponse]);
    let mut config = plain(&backend, "grpc");
    let size = spans("0", 1).body().len() as u64;
    config.queue_bytes = 3 * size;
    let client = Client::start(&config).unwrap();
    client.enqueue(spans("0", 1));
    backend.next_request();
    for number in 1..=5 {
        client.enqueue(spans(&number.to_string(), 1));
    }
    let stats = client.stats();
    assert_eq!(stats.read().queued(), Count { requests: 3, items: 3, bytes: 3 * size });
    let counts = client.flush(AT_ONCE).traces;
    assert_eq!(items(&counts), [0, 0, 0, 3, 3]);
}

#[test]
fn signals_are_delivered_independently() {
    let dead = MockBackend::start([Reply::NoResponse]);
    let alive = MockBackend::start([]);
    let env = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" => Some(format!("http://{}/own", dead.address)),
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" => Some(format!("http://{}", alive.address)),
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL" => Some("grpc".to_owned()),
        _ => None,
    };
    let config = Config::read(Destination::Environment, env).unwrap().unwrap();
    assert!(config.target(Signal::Logs).is_none());
    let client = Client::start(&config).unwrap();
    client.enqueue(spans("step", 1));
    assert_eq!(dead.next_request().path, "/own");
    client.enqueue(points(1));
    client.enqueue(records(1));
    until(&client, |outcome| outcome.metrics.sent.requests == 1);
    assert_eq!(alive.received().len(), 1);
    let outcome = client.flush(AT_ONCE);
    assert_eq!(items(&outcome.traces), [0, 0, 0, 0, 1]);
    assert_eq!(items(&outcome.metrics), [1, 0, 0, 0, 0]);
    assert_eq!(outcome.logs, DeliveryCounts::default(), "not configured, not queued");
}

#[test]
fn enqueue_waiting_blocks_until_queue_has_capacity() {
    let backend = MockBackend::start([]);
    let mut config = plain(&backend, "http/protobuf");
    config.queue_bytes = 2 * spans("00", 1).body().len() as u64;
    let client = Client::start(&config).unwrap();
    for number in 10..60 {
        client.enqueue_waiting(spans(&number.to_string(), 1), GRACE);
    }
    let outcome = client.flush(GRACE);
    assert!(outcome.all_sent());
    assert_eq!(outcome.traces.sent.requests, 50);
}

#[test]
fn headers_and_gzip_are_sent() {
    for protocol in PROTOCOLS {
        let backend = MockBackend::start([]);
        let more = [
            ("PROTOCOL", protocol),
            ("HEADERS", "x-mlflow-experiment-id=7,authorization=Bearer%20abc"),
            ("COMPRESSION", "gzip"),
        ];
        let config = config(&format!("http://{}", backend.address), &more);
        assert!(!format!("{config:?}").contains("abc"), "Debug prints a header");
        let export = spans("step", 300);
        let client = Client::start(&config).unwrap();
        client.enqueue(export.clone());
        let counts = client.flush(GRACE).traces;
        assert_eq!(counts.sent.items, 300, "{counts:?}");
        let request = backend.next_request();
        assert_eq!(request.headers["x-mlflow-experiment-id"], "7");
        assert_eq!(request.headers["authorization"], "Bearer abc");
        let agent = concat!("Phasemeter-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"));
        assert_eq!(request.headers["user-agent"], agent);
        let (packed, encoding) = match protocol {
            "grpc" => (unframed(&request), "grpc-encoding"),
            _ => (request.body.as_ref(), "content-encoding"),
        };
        assert_eq!(request.headers[encoding], "gzip");
        assert!(packed.len() < export.body().len() / 2);
        let mut unpacked = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, export.body().as_ref());
    }
}

#[test]
fn unix_socket_is_supported() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("otlp.sock");
    let backend = MockBackend::on_socket(&socket);
    let config = config(&format!("unix:{}", socket.display()), &[("PROTOCOL", "grpc")]);
    assert_eq!(items(&send(&config)), [3, 0, 0, 0, 0]);
    assert_eq!(backend.received().len(), 1);
}
