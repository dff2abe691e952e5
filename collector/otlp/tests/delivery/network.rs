//! Networks and servers that fail without a word, or with any status: each is noticed in time, and answered as the
//! protocol says.

use std::time::{Duration, Instant};

use http::StatusCode;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::Client;
use tokio::runtime;
use tonic::{Code, Status};

use crate::mock_backend::{MockBackend, Reply};
use crate::relay::Relay;
use crate::{GRACE, PROTOCOLS, config, items, plain, spans, until};

/// The timeout of an attempt in these tests.
const TIMEOUT: [(&str, &str); 1] = [("TIMEOUT", "1000")];

/// Scenario: the other end of an open connection is gone without a word, and is there again later, without that
/// connection.
/// Guarantee: that is noticed within the timeout of an attempt, and what was sent arrives over a new connection.
#[test]
fn half_open_connection_is_noticed_and_replaced() {
    for protocol in PROTOCOLS {
        let backend = MockBackend::start([]);
        let relay = Relay::to(backend.address).unwrap();
        let settings = [TIMEOUT[0], ("PROTOCOL", protocol)];
        let client =
            Client::start(&config(&format!("http://{}", relay.address), &settings)).unwrap();
        client.enqueue(spans("before", 1));
        until(&client, |outcome| outcome.traces.sent.requests == 1);
        relay.fall_silent();
        client.enqueue(spans("meanwhile", 1));
        until(&client, |outcome| outcome.traces.failed_attempts >= 2);
        let error = client.stats().read().traces.last_error.unwrap();
        assert_eq!(error, "no answer within 1s", "{protocol}");
        relay.speak();
        let counts = client.flush(GRACE).traces;
        assert_eq!(items(&counts), [2, 0, 0, 0, 0], "{protocol}: {counts:?}");
    }
}

/// The same of internal telemetry, which the SDK exports over a connection of its own.
#[test]
fn half_open_connection_of_the_sdk_is_replaced() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for protocol in PROTOCOLS {
        let backend = MockBackend::start([]);
        let relay = Relay::to(backend.address).unwrap();
        let settings = [TIMEOUT[0], ("PROTOCOL", protocol)];
        let config = config(&format!("http://{}", relay.address), &settings);
        runtime.block_on(async {
            let exporter = config.target(Signal::Metrics).unwrap().metric_exporter().unwrap();
            let metrics = ResourceMetrics::default();
            exporter.export(&metrics).await.unwrap();
            relay.fall_silent();
            exporter.export(&metrics).await.unwrap_err();
            relay.speak();
            let began = Instant::now();
            while exporter.export(&metrics).await.is_err() {
                // As long as TCP sends again, it would be a quarter of an hour.
                assert!(began.elapsed() < Duration::from_secs(60), "{protocol}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
}

/// The statuses after which a request is sent again, by the protocol.
const RETRYABLE_STATUSES: [u16; 4] = [429, 502, 503, 504];
const RETRYABLE_CODES: [Code; 6] = [
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unavailable,
    Code::DataLoss,
];

/// Scenario: a backend answers a request with each status in turn.
/// Guarantee: it is sent again, or counted as rejected with the reason, as the protocol says; the next one arrives.
#[test]
fn each_status_is_retried_or_not_as_the_protocol_says() {
    let http = (400..=431).chain(500..=511).map(|code| {
        let status = StatusCode::from_u16(code).unwrap();
        ("http/protobuf", Reply::Http(status, None, "no"), RETRYABLE_STATUSES.contains(&code))
    });
    let grpc = (1..=16).map(Code::from_i32).map(|code| {
        ("grpc", Reply::Status(Status::new(code, "no")), RETRYABLE_CODES.contains(&code))
    });
    for (number, (protocol, reply, is_retried)) in http.chain(grpc).enumerate() {
        let backend = MockBackend::start([reply]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(spans("first", 3));
        until(&client, |outcome| {
            outcome.traces.failed_attempts > 0 || outcome.traces.rejected.items > 0
        });
        client.enqueue(spans("second", 1));
        let counts = client.flush(GRACE).traces;
        let expected = if is_retried { [4, 0, 0, 0, 0] } else { [1, 0, 3, 0, 0] };
        assert_eq!(items(&counts), expected, "{protocol} {number}: {counts:?}");
        assert_eq!(backend.received().len(), if is_retried { 3 } else { 2 });
    }
}
