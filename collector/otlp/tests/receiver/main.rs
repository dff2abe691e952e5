//! The receiver, over sockets: all transports, limits, and clients that do not behave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod raw;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::delivery::{Client, Config, Destination};
use phasemeter_otlp::receiver::{
    BearerToken, Limits, ListenAddress, Receiver, ReceiverConfig, ReceiverError, server_tls,
};
use phasemeter_otlp::{EncodedRequest, Request, Signal};
use prost::Message;
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::raw::{PROTOBUF, Reply, connect, post};

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
fn invalid_request_gets_one_clear_error() {
    let (receiver, received, address) = start(Limits::default());
    type Case = (&'static str, &'static [&'static str], &'static [u8], u16, &'static str);
    let cases: [Case; 10] = [
        ("/v1/spans", &[PROTOBUF], b"", 404, "path: not an OTLP service"),
        ("/", &[], b"", 404, "path: not an OTLP service"),
        ("/v1/traces", &["content-type: text/plain"], b"", 415, "content-type: not supported"),
        ("/v1/traces", &[PROTOBUF, "content-encoding: br"], b"", 415, "compression: not supported"),
        ("/v1/traces", &[PROTOBUF], b"\xff\xff", 400, "request: malformed: invalid protobuf"),
        // An element with the wire type of a number.
        ("/v1/traces", &[PROTOBUF], b"\x08\x01", 400, "request: malformed: invalid protobuf"),
        ("/v1/traces", &[raw::JSON], b"{", 400, "request: malformed: invalid JSON"),
        ("/v1/traces", &[raw::JSON], b"[]", 400, "request: malformed: invalid JSON"),
        ("/v1/traces", &[PROTOBUF, "content-encoding: gzip"], b"no", 400, "cannot be decompressed"),
        (
            Signal::Traces.grpc_method(),
            &["content-type: application/grpc"],
            b"no",
            200,
            "truncated gRPC message",
        ),
    ];
    for (path, headers, body, status, message) in cases {
        let reply = post(&address, path, headers, body);
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        let text = reply.text().replace("%20", " ");
        assert!(text.contains(message), "{path}: {text}");
    }
    let reply =
        raw::exchange(&address, b"GET /v1/traces HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(reply.status, 405);
    assert!(received.try_recv().is_err());
    assert_eq!((receiver.stats().accepted, receiver.stats().rejected), (0, 11));
}

#[test]
fn malformed_element_is_reported_and_the_rest_passes() {
    let (_receiver, received, address) = start(Limits::default());
    let good = spans(3).encode_to_vec();
    let body = [&b"\x0a\x04\x1a\x02\xff\xfe"[..], &good].concat();
    let reply = post(&address, "/v1/traces", &[PROTOBUF], &body);
    assert_eq!(reply.status, 200);
    let partial = ExportTraceServiceResponse::decode(&reply.body[..]).unwrap();
    let partial = partial.partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.starts_with("malformed: "), "{}", partial.error_message);
    assert_eq!(received.recv_timeout(SOON).unwrap().body(), &good);
}

#[test]
fn too_large_request_is_rejected_without_being_read() {
    let (_receiver, _received, address) = start(Limits { request_bytes: 1 << 16, ..limits() });
    let reply = post(&address, "/v1/traces", &[PROTOBUF], &vec![0; 1 << 17]);
    assert_eq!(reply.status, 413, "{}", reply.text());
    let text = "larger than 65536 bytes; send smaller batches, or raise --max-request-body-size";
    assert!(reply.text().contains(text), "{}", reply.text());
    let frame = [&[0][..], &(1_u32 << 17).to_be_bytes(), &vec![0; 1 << 17]].concat();
    let grpc = ["content-type: application/grpc", "te: trailers"];
    let reply = post(&address, Signal::Traces.grpc_method(), &grpc, &frame);
    assert_eq!(reply.header("grpc-status").as_deref(), Some("8"), "{}", reply.text());
    assert!(reply.text().replace("%20", " ").contains("bytes; send smaller batches"));
    // Only announced.
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: a\r\n{PROTOBUF}\r\ncontent-length: 65537\r\n\r\n"
    );
    let reply = raw::exchange(&address, head.as_bytes());
    assert_eq!(reply.status, 413, "{}", reply.text());
    let mut bomb = Vec::new();
    let zeros = vec![0; 1 << 20];
    let mut encoder = flate2::bufread::GzEncoder::new(&zeros[..], flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut bomb).unwrap();
    let reply = post(&address, "/v1/traces", &[PROTOBUF, "content-encoding: gzip"], &bomb);
    assert_eq!(reply.status, 413, "{}", reply.text());
}

#[test]
fn client_is_asked_to_retry_while_there_is_no_capacity() {
    let body = spans(500).encode_to_vec();
    let fits = 3;
    let limits = Limits { bytes_in_flight: fits * body.len() + body.len() / 2, ..limits() };
    let (receiver, received, address) = start(limits);
    let send = || post(&address, "/v1/traces", &[PROTOBUF], &body);
    let held: Vec<EncodedRequest> = (0..fits)
        .map(|_| {
            assert_eq!(send().status, 200);
            received.recv_timeout(SOON).unwrap()
        })
        .collect();
    let reply = send();
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1".to_owned())));
    let frame = [&[0][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat();
    let grpc = ["content-type: application/grpc", "te: trailers"];
    let reply = post(&address, Signal::Traces.grpc_method(), &grpc, &frame);
    assert_eq!(reply.header("grpc-status").as_deref(), Some("8"), "{}", reply.text());
    assert!(reply.header("grpc-status-details-bin").is_some(), "RetryInfo");
    // Once one is delivered, the next is accepted; nothing that was accepted is dropped.
    drop(held);
    assert_eq!(send().status, 200);
    assert_eq!(received.recv_timeout(SOON).unwrap().body(), &body);
    assert_eq!((receiver.stats().accepted, receiver.stats().postponed), (4, 2));
}

#[test]
fn own_client_retries_until_there_is_capacity() {
    let requests: Vec<_> = (1..=8).map(|n| EncodedRequest::traces(&spans(n * 50))).collect();
    let most = requests.iter().map(|request| request.body().len()).max().unwrap();
    let short = Duration::from_millis(1);
    let limits = Limits { bytes_in_flight: 2 * most, retry_after: short, ..limits() };
    let (_receiver, received, address) = start(limits);
    for protocol in ["grpc", "http/protobuf"] {
        let endpoint = format!("http://{address}");
        let client = client(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ]);
        requests.iter().for_each(|request| client.enqueue(request.clone()));
        let outcome = thread::scope(|scope| {
            let flush = scope.spawn(|| client.flush(SOON));
            for sent in &requests {
                let request = received.recv_timeout(SOON).unwrap();
                assert_eq!(request.body(), sent.body(), "in order");
                // Delivery takes a while.
                thread::sleep(Duration::from_millis(20));
            }
            flush.join().unwrap()
        });
        assert!(outcome.all_sent(), "{outcome:?}");
    }
}

#[test]
fn slow_clients_are_cut_off_and_hold_nobody_up() {
    let (_receiver, received, address) = start(limits());
    let body = spans(10).encode_to_vec();
    // As many as may be read at a time, each with a byte now and then.
    let slow: Vec<_> = (0..64)
        .map(|i| {
            let mut stream = connect(&address);
            let announced = "POST /v1/traces HTTP/1.1\r\nhost: a\r\n\
                content-type: application/x-protobuf\r\ncontent-length: 1000000\r\n\r\n";
            // Some never finish their headers, others their body.
            let sent = if i % 2 == 0 { &announced[..40] } else { announced };
            std::io::Write::write_all(&mut stream, sent.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    for _ in 0..20 {
        assert_eq!(post(&address, "/v1/traces", &[PROTOBUF], &body).status, 200);
        assert_eq!(received.recv_timeout(SOON).unwrap().body(), &body);
    }
    assert!(started.elapsed() < SOON);
    for (i, mut stream) in slow.into_iter().enumerate() {
        let text = raw::drip_until_closed(&mut stream, Duration::from_millis(50), SOON);
        if i % 2 == 1 {
            assert!(text.starts_with("HTTP/1.1 408"), "{text}");
        }
    }
}

#[test]
fn connections_are_limited_and_idle_ones_closed() {
    let limits = Limits { connections: 4, ..limits() };
    let (_receiver, received, address) = start(limits);
    let idle: Vec<_> = (0..4).map(|_| connect(&address)).collect();
    // Those that send nothing are closed, and others can connect.
    for mut stream in idle {
        assert_eq!(raw::drip_until_closed(&mut stream, SOON, SOON), "");
    }
    let body = spans(1).encode_to_vec();
    assert_eq!(post(&address, "/v1/traces", &[PROTOBUF], &body).status, 200);
    assert!(received.recv_timeout(SOON).is_ok());
}

/// Guarantee: a client that does not send what is accepted holds a share of the connections, for seconds, and is closed
/// for a newer one; a client with the token is served meanwhile.
#[test]
fn connections_without_the_token_keep_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "secret").unwrap();
    let limits = Limits {
        connections: 16,
        newcomers: 4,
        newcomer_timeout: Duration::from_millis(600),
        ..limits()
    };
    let config = ReceiverConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        token: Some(BearerToken::read(&file).unwrap()),
        limits,
        ..ReceiverConfig::default()
    };
    let (receiver, received) = Receiver::start(config).unwrap();
    let address = receiver.addresses()[0].to_string();
    let body = spans(1).encode_to_vec();
    let known = "authorization: Bearer secret";
    let request = |token: &str| {
        format!(
            "POST /v1/traces HTTP/1.1\r\nhost: a\r\n{PROTOBUF}\r\n{token}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
    };
    let send = |token: &str| {
        let mut stream = connect(&address);
        let bytes = [request(token).as_bytes(), &body].concat();
        std::io::Write::write_all(&mut stream, &bytes).unwrap();
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut head).unwrap();
        (stream, String::from_utf8(head.to_vec()).unwrap())
    };
    assert_eq!(send(known).1, "HTTP/1.1 200");
    for round in 0..4 {
        // More than there are slots, with and without a request.
        let strangers: Vec<_> =
            (0..20).map(|i| if i % 2 == 0 { connect(&address) } else { send("x: y").0 }).collect();
        let reply = post(&address, "/v1/traces", &[PROTOBUF, known], &body);
        assert_eq!(reply.status, 200, "round {round}");
        for mut stranger in strangers {
            // At last by time.
            raw::drain_until_closed(&mut stranger, SOON);
        }
    }
    assert_eq!(received.try_iter().count(), 5);
}

/// Guarantee: a request without the first byte of its body holds nothing that others need.
#[test]
fn requests_without_a_body_hold_no_slot() {
    let limits =
        Limits { concurrent_requests: 2, bytes_in_flight: 4 << 10, body_timeout: SOON, ..limits() };
    let (_receiver, received, address) = start(limits);
    let announced = "POST /v1/traces HTTP/1.1\r\nhost: a\r\n\
        content-type: application/x-protobuf\r\ncontent-length: 1000\r\n\r\n";
    let waiting: Vec<_> = (0..32)
        .map(|_| {
            let mut stream = connect(&address);
            std::io::Write::write_all(&mut stream, announced.as_bytes()).unwrap();
            stream
        })
        .collect();
    let body = spans(1).encode_to_vec();
    for _ in 0..8 {
        assert_eq!(post(&address, "/v1/traces", &[PROTOBUF], &body).status, 200);
        assert!(received.recv_timeout(SOON).is_ok());
    }
    drop(waiting);
}

#[test]
fn unix_socket_is_private_and_replaced_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("otlp.sock");
    let listen = || vec![format!("unix:{}", path.display()).parse::<ListenAddress>().unwrap()];
    // What a killed program leaves.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let config = ReceiverConfig { listen: listen(), ..ReceiverConfig::default() };
    let (receiver, received) = Receiver::start(config).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let variables = is_grpc_and_unix(&path);
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let client = client(&variables);
    let request = EncodedRequest::traces(&spans(2));
    client.enqueue(request.clone());
    assert!(client.flush(SOON).all_sent());
    assert_eq!(received.recv_timeout(SOON).unwrap().body(), request.body());
    let config = ReceiverConfig { listen: listen(), ..ReceiverConfig::default() };
    assert!(matches!(Receiver::start(config), Err(ReceiverError::Listen { .. })), "in use");
    drop(receiver);
    assert!(!path.exists());
}

#[test]
fn wider_than_loopback_requires_tls_and_token() {
    let directory = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let before = cert.pem();
    let certificate = file("cert.pem", before.clone());
    let key = file("key.pem", signing_key.serialize_pem());
    let token = file("token", "s3cret\n".to_owned());
    let listen: Vec<ListenAddress> = vec!["0.0.0.0:0".parse().unwrap()];
    let tls = Some(server_tls(&certificate, &key).unwrap());
    let token = Some(BearerToken::read(&token).unwrap());
    for (tls, token) in [(None, None), (tls.clone(), None), (None, token.clone())] {
        let config = ReceiverConfig { listen: listen.clone(), tls, token, ..Default::default() };
        assert!(matches!(Receiver::start(config), Err(ReceiverError::Insecure(_))));
    }
    let config = ReceiverConfig { listen, tls, token, ..Default::default() };
    let (receiver, received) = Receiver::start(config).unwrap();
    let port = receiver.addresses()[0].to_string().rsplit(':').next().unwrap().to_owned();
    let endpoint = format!("https://localhost:{port}");
    let trusted = certificate.display().to_string();
    for protocol in ["grpc", "http/protobuf"] {
        for (headers, is_accepted) in
            [("authorization=Bearer%20s3cret", true), ("authorization=Bearer%20wrong", false)]
        {
            let client = client(&[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", &trusted),
                ("OTEL_EXPORTER_OTLP_HEADERS", headers),
            ]);
            client.enqueue(EncodedRequest::traces(&spans(1)));
            let outcome = client.flush(SOON);
            assert_eq!(outcome.all_sent(), is_accepted, "{protocol}: {outcome:?}");
            assert_eq!(outcome.traces.rejected.requests, u64::from(!is_accepted));
        }
    }
    assert_eq!(received.try_iter().count(), 2);

    // Both are replaced while it runs; a broken file changes nothing.
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    file("cert.pem", "not a certificate".to_owned());
    let accepts = |trusted: &str, token: &str| {
        let headers = format!("authorization=Bearer%20{token}");
        let client = client(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", trusted),
            ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ]);
        client.enqueue(EncodedRequest::traces(&spans(1)));
        client.flush(Duration::from_secs(2)).all_sent()
    };
    let before = file("before.pem", before).display().to_string();
    assert!(accepts(&before, "s3cret"));
    file("key.pem", signing_key.serialize_pem());
    let after = file("cert.pem", cert.pem()).display().to_string();
    file("token", "another".to_owned());
    assert!(accepts(&after, "another"));
    assert!(!accepts(&after, "s3cret") && !accepts(&before, "another"));
}

#[test]
fn channel_closes_when_the_receiver_stops() {
    let (mut receiver, received, address) = start(Limits::default());
    let body = spans(1).encode_to_vec();
    assert_eq!(post(&address, "/v1/traces", &[PROTOBUF], &body).status, 200);
    // An open connection does not delay the end.
    let _idle = connect(&address);
    receiver.stop();
    assert_eq!(received.iter().count(), 1);
    assert!(std::net::TcpStream::connect(&address).is_err());
}

#[test]
fn reply_of_test_client_is_parsed() {
    let reply = Reply::parse(b"HTTP/1.1 429 x\r\nRetry-After: 1\r\n\r\nbody");
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1".to_owned())));
    assert_eq!(reply.body, b"body");
}
