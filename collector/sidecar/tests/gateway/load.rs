//! The gateway under load, and without a backend. Delays are printed, not asserted: they depend on what
//! else the machine does.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::{EncodedRequest, Signal};

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::process::{Gateway, client};
use crate::{SOON, body};

/// Spans per request, and time between requests: 10,000 spans per second.
const SPANS: u64 = 100;
const INTERVAL: Duration = Duration::from_millis(10);

/// Number of requests: three seconds.
const REQUESTS: u64 = 300;

/// Most memory without a backend, in KiB, of which 16 MiB are requests that wait. With the 24 MiB of a
/// release program it stays within 64 MiB.
const MAX_MEMORY_KIB: u64 = 40 << 10;

fn request(number: u64, spans: u64) -> EncodedRequest {
    let span = |i: u64| Span {
        trace_id: [number.to_be_bytes(), i.to_be_bytes()].concat(),
        span_id: i.to_be_bytes().to_vec(),
        name: "llm_request".to_owned(),
        start_time_unix_nano: 1_785_110_400_000_000_000 + number,
        end_time_unix_nano: 1_785_110_401_000_000_000 + i,
        trace_state: "a".repeat(100),
        ..Span::default()
    };
    let scope_spans = ScopeSpans { spans: (0..spans).map(span).collect(), ..Default::default() };
    let group = ResourceSpans { scope_spans: vec![scope_spans], ..Default::default() };
    EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans: vec![group] })
}

/// Sends requests at their times, and returns how long each took to arrive, sorted.
fn delays(backend: MockBackend, endpoint: &str, requests: &[EncodedRequest]) -> Vec<Duration> {
    let client = client(endpoint);
    let expected: Vec<_> = requests.iter().map(|request| request.body().clone()).collect();
    let arrivals = thread::spawn(move || {
        // Several may leave as one, whose elements are theirs.
        let (mut bytes, mut at) = (Vec::new(), Instant::now());
        let mut arrive = |expected: &bytes::Bytes| {
            if bytes.is_empty() {
                (bytes, at) = (body(&backend.next_request()).to_vec(), Instant::now());
            }
            assert!(bytes.starts_with(expected), "the bytes differ, or their order");
            bytes.drain(..expected.len());
            at
        };
        expected.iter().map(&mut arrive).collect::<Vec<_>>()
    });
    let started = Instant::now();
    let sent: Vec<Instant> = (0..)
        .zip(requests)
        .map(|(i, request)| {
            thread::sleep((started + INTERVAL * i).saturating_duration_since(Instant::now()));
            let now = Instant::now();
            client.enqueue(request.clone());
            now
        })
        .collect();
    assert!(client.flush(SOON).all_sent());
    let arrivals = arrivals.join().unwrap();
    let mut delays: Vec<_> = sent.iter().zip(arrivals).map(|(sent, at)| at - *sent).collect();
    delays.sort_unstable();
    delays
}

#[test]
fn ten_thousand_spans_per_second_pass_unchanged() {
    let requests: Vec<_> = (0..REQUESTS).map(|number| request(number, SPANS)).collect();
    let direct = MockBackend::start([]);
    let endpoint = format!("http://{}", direct.address);
    let direct = delays(direct, &endpoint, &requests);
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let through = delays(backend, &gateway.endpoint(), &requests);
    gateway.stop();
    let millis = |delays: &[Duration], percent: usize| {
        delays[delays.len() * percent / 100].as_secs_f64() * 1e3
    };
    for (name, delays) in [("direct", &direct), ("through the gateway", &through)] {
        let (p50, p99) = (millis(delays, 50), millis(delays, 99));
        println!("{name}: p50 {p50:.2} ms, p99 {p99:.2} ms");
    }
    assert_eq!(through.len(), requests.len());
}

#[test]
fn memory_is_limited_while_the_backend_is_down() {
    let nothing = Unreachable::reserve();
    // Of requests of 4 MiB, 16 MiB wait.
    let options = ["--max-request-body-size", "4"];
    let gateway = Gateway::start_at(&format!("http://{}", nothing.address), &options);
    let peak = gateway.peak_kib();
    // Over several connections, more than fits.
    let clients: Vec<_> = (0..8).map(|_| client(&gateway.endpoint())).collect();
    for number in 0..80 {
        let client = &clients[usize::try_from(number % 8).unwrap()];
        client.enqueue(request(number, 5_000));
    }
    let outcomes = clients.into_iter().map(|client| client.flush(Duration::from_secs(3)));
    let (sent, unsent) = outcomes.fold((0, 0), |(sent, unsent), outcome| {
        let counts = &outcome.traces;
        assert_eq!((counts.rejected.requests, counts.partially_rejected), (0, 0));
        (sent + counts.sent.bytes, unsent + counts.unsent.bytes)
    });
    gateway.stop();
    let peak = peak.join().unwrap();
    println!("{sent} bytes accepted, {unsent} not; at most {peak} KiB of memory");
    assert!(sent > 8 << 20 && sent <= 16 << 20, "{sent}");
    assert!(unsent > 0);
    assert!(peak <= MAX_MEMORY_KIB, "{peak} KiB");
}

/// Scenario: the backend is slow, and the gateway is stopped while requests wait that it has accepted.
/// Guarantee: they arrive, in a few requests, so that a slow link takes little of the time that a stop has.
#[test]
fn accepted_requests_arrive_although_the_gateway_stops() {
    let ((enter, entered), (release, held)) = (mpsc::channel(), mpsc::channel::<()>());
    let backend = MockBackend::deciding(move |_| {
        enter.send(()).unwrap();
        let _ = held.recv();
        Reply::Accept
    });
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    let requests: Vec<_> = (0..2_000).map(|number| request(number, 1)).collect();
    requests.iter().for_each(|request| client.enqueue(request.clone()));
    assert!(client.flush(SOON).all_sent(), "accepted");
    entered.recv().unwrap();
    let stop = thread::spawn(move || gateway.stop());
    drop(release);
    assert!(stop.join().unwrap().0.success());
    let received = backend.received();
    let own = received.iter().filter(|it| it.path == Signal::Traces.grpc_method());
    let passed: Vec<u8> = own.flat_map(|it| body(it).to_vec()).collect();
    let expected: Vec<u8> = requests.iter().flat_map(|it| it.body().to_vec()).collect();
    assert!(passed.starts_with(&expected), "{} of {} bytes", passed.len(), expected.len());
    assert!(received.len() < 10, "{} requests", received.len());
}
