//! Clients retry while the receiver has no capacity.

use std::thread;
use std::time::Duration;

use phasemeter_otlp::{EncodedRequest, Signal};
use phasemeter_receiver::Limits;
use prost::Message;

use crate::raw::{PROTOBUF, post};
use crate::{SOON, client, limits, spans, start};

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
