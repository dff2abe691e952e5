//! Requests that are rejected, in whole or in part.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use phasemeter_otlp::Signal;
use phasemeter_receiver::Limits;
use prost::Message;

use crate::raw::{self, PROTOBUF, post};
use crate::{SOON, limits, spans, start};

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
