//! The client beside a real server: what arrives, what is sent again, and what is said of the rest.
//! Nothing here waits for time to pass but where a wait is what is asked for, and then briefly.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../backend/mod.rs"]
mod backend;
mod tls;

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use backend::{Backend, Reply, Seen};
use flate2::read::GzDecoder;
use http::StatusCode;
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
    Client, Config, Count, DeliveryCounts, Destination, Outcome, Retry,
};
use phasemeter_otlp::{EncodedRequest, Signal};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Longer than anything here takes, so that what is asserted is never the grace's end.
const GRACE: Duration = Duration::from_secs(60);
/// No grace: what is not done is left.
const AT_ONCE: Duration = Duration::ZERO;

/// What a test sets: the endpoint, and more.
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

/// Both transports, by their name.
const PROTOCOLS: [&str; 2] = ["grpc", "http/protobuf"];

fn plain(backend: &Backend, protocol: &str) -> Config {
    config(&format!("http://{}", backend.address), &[("PROTOCOL", protocol)])
}

/// A request of so many spans, the first of them named.
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

/// Sends one request of three spans by a client of its own.
fn send(config: &Config) -> DeliveryCounts {
    let client = Client::start(config).unwrap();
    client.enqueue(spans("step", 3));
    client.flush(GRACE).traces
}

fn items(account: &DeliveryCounts) -> [u64; 5] {
    let rejected = account.partially_rejected;
    let [sent, refused, dropped, left] =
        [account.sent, account.refused, account.dropped, account.unsent].map(|count| count.items);
    [sent, rejected, refused, dropped, left]
}

/// Waits for what the client's thread is about to do.
fn until(client: &Client, done: impl Fn(&Outcome) -> bool) {
    let started = Instant::now();
    while !done(&client.stats().read()) {
        assert!(started.elapsed() < GRACE, "{:?}", client.stats().read());
        std::thread::yield_now();
    }
}

/// The request inside gRPC's frame.
fn unframed(seen: &Seen) -> &[u8] {
    &seen.body[5..]
}

#[test]
fn all_signals_arrive_as_they_were_encoded() {
    for protocol in PROTOCOLS {
        let backend = Backend::start([]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        let exports = [spans("step", 3), points(2), records(4)];
        for export in exports.clone() {
            client.enqueue(export);
        }
        let stats = client.stats();
        let outcome = client.flush(GRACE);
        assert!(outcome.all_sent(), "{outcome:?}");
        assert_eq!(outcome, stats.read());
        for (export, (signal, account)) in exports.iter().zip(outcome.iter()) {
            assert_eq!(export.signal(), signal);
            let bytes = export.body().len() as u64;
            assert_eq!(account.sent, Count { requests: 1, items: export.items(), bytes });
        }
        let mut arrived = backend.rest();
        assert_eq!(arrived.len(), 3);
        arrived.sort_by_key(|seen| seen.path.clone());
        let paths: Vec<&str> = arrived.iter().map(|seen| seen.path.as_str()).collect();
        let [logs, metrics, traces] = arrived.as_slice() else { unreachable!() };
        for (seen, export) in [(traces, &exports[0]), (metrics, &exports[1]), (logs, &exports[2])] {
            let body = if protocol == "grpc" { unframed(seen) } else { &seen.body };
            assert_eq!(body, export.body());
        }
        match protocol {
            "grpc" => assert!(paths[2].ends_with("trace.v1.TraceService/Export"), "{paths:?}"),
            _ => assert_eq!(paths, ["/v1/logs", "/v1/metrics", "/v1/traces"]),
        }
    }
}

#[test]
fn what_was_unavailable_gets_the_same_bytes_again_and_in_order() {
    let busy = Reply::Http(StatusCode::SERVICE_UNAVAILABLE, None, "");
    let unavailable = Reply::Status(Status::unavailable("starting"));
    for (protocol, failure) in [("grpc", unavailable), ("http/protobuf", busy)] {
        let script = [failure.clone(), failure.clone(), Reply::Accept, failure];
        let backend = Backend::start(script);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        let (first, second) = (spans("first", 1), spans("second", 1));
        client.enqueue(first.clone());
        client.enqueue(second.clone());
        let account = client.flush(GRACE).traces;
        assert_eq!((account.sent.requests, account.failed_attempts), (2, 3));
        let seen = backend.rest();
        assert_eq!(seen.len(), 5);
        for (seen, export) in seen.iter().zip([&first, &first, &first, &second, &second]) {
            assert!(seen.body.ends_with(export.body()));
            assert!(seen.body.len() <= export.body().len() + 5);
        }
        assert!(account.last_error.is_some(), "it is kept when all is well again");
    }
}

#[test]
fn a_wait_that_the_backend_asks_for_is_kept() {
    let wait = Duration::from_millis(300);
    let asks = ErrorDetails::with_retry_info(Some(wait));
    let exhausted = Status::with_error_details(Code::ResourceExhausted, "quota", asks);
    let too_many = Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("1"), "");
    for (protocol, reply) in [("grpc", Reply::Status(exhausted)), ("http/protobuf", too_many)] {
        let backend = Backend::start([reply]);
        let started = Instant::now();
        let account = send(&plain(&backend, protocol));
        assert!(started.elapsed() >= wait, "{:?}", started.elapsed());
        assert_eq!(items(&account), [3, 0, 0, 0, 0]);
        assert_eq!(account.failed_attempts, 1);
    }
}

#[test]
fn a_wait_of_our_own_ends_when_the_client_closes() {
    let backend = Backend::start([Reply::Status(Status::unavailable("starting"))]);
    let mut config = plain(&backend, "grpc");
    let hour = Duration::from_secs(3600);
    config.retry = Retry { initial_interval: hour, max_interval: hour };
    let client = Client::start(&config).unwrap();
    client.enqueue(spans("step", 3));
    backend.next();
    assert_eq!(items(&client.flush(GRACE).traces), [3, 0, 0, 0, 0]);
}

#[test]
fn a_wait_beyond_the_grace_ends_the_flush_at_once() {
    let backend = Backend::start([Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("3000"), "")]);
    let started = Instant::now();
    let account = send(&plain(&backend, "http/protobuf"));
    assert!(started.elapsed() < GRACE);
    assert_eq!(items(&account), [0, 0, 0, 0, 3]);
    assert_eq!(account.last_error.as_deref(), Some("429 Too Many Requests"));
}

#[test]
fn what_is_refused_is_dropped_and_the_next_is_sent() {
    let exhausted = Reply::Status(Status::resource_exhausted("quota"));
    let bad = Reply::Http(StatusCode::BAD_REQUEST, None, "no such experiment\n");
    for (protocol, reply, reason) in [
        ("grpc", exhausted, "ResourceExhausted: quota"),
        ("http/protobuf", bad, "400 Bad Request: no such experiment"),
    ] {
        let backend = Backend::start([reply]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(spans("refused", 3));
        client.enqueue(spans("sent", 2));
        let outcome = client.flush(GRACE);
        assert!(!outcome.all_sent());
        assert_eq!(items(&outcome.traces), [2, 0, 3, 0, 0]);
        assert_eq!(outcome.traces.last_error.as_deref(), Some(reason));
        assert_eq!(backend.rest().len(), 2);
    }
}

#[test]
fn what_is_rejected_out_of_a_request_is_counted_and_not_sent_again() {
    for protocol in PROTOCOLS {
        let backend =
            Backend::start([Reply::Partial(2, "too old"), Reply::Partial(0, "slow down")]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(points(5));
        let mut account = client.flush(GRACE).metrics;
        assert_eq!(items(&account), [3, 2, 0, 0, 0]);
        assert_eq!(account.last_error.take().as_deref(), Some("too old"));
        assert_eq!(backend.rest().len(), 1);

        let warned = send(&plain(&backend, protocol));
        assert_eq!(items(&warned), [3, 0, 0, 0, 0]);
        assert_eq!(warned.last_error.as_deref(), Some("slow down"));
    }
}

#[test]
fn a_backend_that_does_not_answer_is_asked_again_on_a_new_line() {
    for protocol in PROTOCOLS {
        let backend = Backend::start([Reply::Silence]);
        let endpoint = format!("http://{}", backend.address);
        let account = send(&config(&endpoint, &[("PROTOCOL", protocol), ("TIMEOUT", "200")]));
        assert_eq!(items(&account), [3, 0, 0, 0, 0]);
        assert_eq!(account.last_error.as_deref(), Some("no answer within 200ms"));
        assert!(backend.rest().len() >= 2);
    }
}

#[test]
fn where_nobody_listens_all_is_left_and_said() {
    for protocol in PROTOCOLS {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = config(&format!("http://{nobody}"), &[("PROTOCOL", protocol)]);
        let client = Client::start(&config).unwrap();
        client.enqueue(spans("step", 3));
        until(&client, |outcome| outcome.traces.failed_attempts > 0);
        let account = client.flush(AT_ONCE).traces;
        assert_eq!(items(&account), [0, 0, 0, 0, 3]);
        let reason = account.last_error.unwrap();
        assert!(reason.contains("Connection refused"), "{reason}");
    }
}

#[test]
fn a_full_queue_drops_the_oldest_and_nobody_waits() {
    let backend = Backend::start([Reply::Silence]);
    let mut config = plain(&backend, "grpc");
    let size = spans("0", 1).body().len() as u64;
    config.queue_bytes = 3 * size;
    let client = Client::start(&config).unwrap();
    client.enqueue(spans("0", 1));
    backend.next();
    for number in 1..=5 {
        client.enqueue(spans(&number.to_string(), 1));
    }
    let stats = client.stats();
    assert_eq!(stats.read().queued(), Count { requests: 3, items: 3, bytes: 3 * size });
    let account = client.flush(AT_ONCE).traces;
    assert_eq!(items(&account), [0, 0, 0, 3, 3]);
}

#[test]
fn one_signal_does_not_wait_for_another() {
    let dead = Backend::start([Reply::Silence]);
    let alive = Backend::start([]);
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
    assert_eq!(dead.next().path, "/own");
    client.enqueue(points(1));
    client.enqueue(records(1));
    until(&client, |outcome| outcome.metrics.sent.requests == 1);
    assert_eq!(alive.rest().len(), 1);
    let outcome = client.flush(AT_ONCE);
    assert_eq!(items(&outcome.traces), [0, 0, 0, 0, 1]);
    assert_eq!(items(&outcome.metrics), [1, 0, 0, 0, 0]);
    assert_eq!(outcome.logs, DeliveryCounts::default(), "it goes nowhere, and is not kept");
}

#[test]
fn a_source_that_is_faster_than_the_network_can_wait_for_it() {
    let backend = Backend::start([]);
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
fn headers_and_gzip_arrive() {
    for protocol in PROTOCOLS {
        let backend = Backend::start([]);
        let more = [
            ("PROTOCOL", protocol),
            ("HEADERS", "x-mlflow-experiment-id=7,authorization=Bearer%20abc"),
            ("COMPRESSION", "gzip"),
        ];
        let config = config(&format!("http://{}", backend.address), &more);
        assert!(!format!("{config:?}").contains("abc"), "a header is shown");
        let export = spans("step", 300);
        let client = Client::start(&config).unwrap();
        client.enqueue(export.clone());
        let account = client.flush(GRACE).traces;
        assert_eq!(account.sent.items, 300, "{account:?}");
        let seen = backend.next();
        assert_eq!(seen.headers["x-mlflow-experiment-id"], "7");
        assert_eq!(seen.headers["authorization"], "Bearer abc");
        assert!(seen.headers["user-agent"].to_str().unwrap().starts_with("phasemeter/"));
        let (packed, encoding) = match protocol {
            "grpc" => (unframed(&seen), "grpc-encoding"),
            _ => (seen.body.as_ref(), "content-encoding"),
        };
        assert_eq!(seen.headers[encoding], "gzip");
        assert!(packed.len() < export.body().len() / 2);
        let mut unpacked = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, export.body().as_ref());
    }
}

#[test]
fn a_socket_serves_as_well() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("otlp.sock");
    let backend = Backend::on_socket(&socket);
    let config = config(&format!("unix:{}", socket.display()), &[("PROTOCOL", "grpc")]);
    assert_eq!(items(&send(&config)), [3, 0, 0, 0, 0]);
    assert_eq!(backend.rest().len(), 1);
}
