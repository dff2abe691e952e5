//! The addresses of a receiver: who may connect to them, and what remains of them.

use std::time::Duration;

use phasemeter_otlp::EncodedRequest;
use phasemeter_receiver::{
    BearerToken, Limits, ListenAddress, Receiver, ReceiverConfig, ReceiverError, server_tls,
};
use prost::Message;
use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::raw::{PROTOBUF, connect, post};
use crate::{SOON, client, is_grpc_and_unix, spans, start};

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
