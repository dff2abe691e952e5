//! Connections and clients that do not behave: each holds little, and for a short time.

use std::time::{Duration, Instant};

use phasemeter_receiver::{BearerToken, Limits, Receiver, ReceiverConfig};
use prost::Message;

use crate::raw::{self, PROTOBUF, connect, post};
use crate::{SOON, limits, spans, start};

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
