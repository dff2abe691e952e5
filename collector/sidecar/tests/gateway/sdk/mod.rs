//! The OpenTelemetry SDK for Python as client.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use fake_nvml::Fake;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use phasemeter_otlp::Signal;
use prost::Message;

use crate::body;
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::process::{self, Gateway};

/// Received requests by signal, decoded.
#[derive(Debug, Default, PartialEq)]
struct Requests {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    logs: Vec<ExportLogsServiceRequest>,
}

/// Whether a request is the gateway's telemetry of itself.
fn is_of_gateway(request: &ReceivedRequest) -> bool {
    if request.path != Signal::Metrics.grpc_method() {
        return false;
    }
    let request = ExportMetricsServiceRequest::decode(body(request)).unwrap();
    let resources = request.resource_metrics.into_iter().filter_map(|group| group.resource);
    let mut attributes = resources.flat_map(|resource| resource.attributes);
    let own = Some(Value::StringValue("phasemeter".to_owned()));
    attributes.any(|it| it.key == "service.name" && it.value.and_then(|it| it.value) == own)
}

/// The requests that a backend received over gRPC, without those of the gateway itself, and their bytes.
fn received(backend: &MockBackend) -> (Requests, Vec<(String, Vec<u8>)>) {
    let mut all: Vec<ReceivedRequest> = backend.received();
    all.retain(|request| !is_of_gateway(request));
    let mut requests = Requests::default();
    for request in &all {
        let bytes = body(request);
        match Signal::ALL.into_iter().find(|it| it.grpc_method() == request.path) {
            Some(Signal::Traces) => requests.traces.push(Message::decode(bytes).unwrap()),
            Some(Signal::Metrics) => requests.metrics.push(Message::decode(bytes).unwrap()),
            Some(Signal::Logs) => requests.logs.push(Message::decode(bytes).unwrap()),
            None => panic!("{}", request.path),
        }
    }
    let mut bytes: Vec<_> =
        all.iter().map(|request| (request.path.clone(), body(request).to_vec())).collect();
    bytes.sort();
    (requests, bytes)
}

/// Python with the SDK, and the script that sends; `None`, with a word, if the tests have no tools.
fn sdk() -> Option<[PathBuf; 2]> {
    let Some(toolchains) = env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty()) else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: OpenTelemetry SDK (no toolchains): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/sdk/send.py");
    Some([Path::new(&toolchains).join("sdk/bin/python"), script])
}

/// Scenario: the SDK sends the same traces, metrics and logs through the gateway, by each protocol that it
/// has, and directly to another backend.
/// Guarantee: the same items arrive at both; of protobuf, the same bytes.
#[test]
fn sdk_sends_the_same_through_the_gateway_as_directly() {
    let Some([python, script]) = sdk() else { return };
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        let (behind, direct) = (MockBackend::start([]), MockBackend::start([]));
        let gateway = Gateway::start(&behind, &[]);
        let direct_endpoint = format!("http://{}", direct.address);
        let output = Command::new(&python)
            .arg(&script)
            .args([protocol, &gateway.endpoint(), "grpc", &direct_endpoint])
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{protocol}: {log}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "sent everything");
        let (status, _) = gateway.stop();
        assert!(status.success());

        let (passed, passed_bytes) = received(&behind);
        let (sent, sent_bytes) = received(&direct);
        assert_eq!((sent.traces.len(), sent.metrics.len(), sent.logs.len()), (1, 1, 1));
        let spans = &sent.traces[0].resource_spans[0].scope_spans[0].spans;
        assert_eq!(spans.len(), 51);
        assert_eq!(passed, sent, "{protocol}");
        if protocol != "http/json" {
            assert!(passed_bytes == sent_bytes, "{protocol}: other bytes");
        }
    }
}

/// Scenario: a command with the SDK, which is configured by its environment only, runs in front of a backend that
/// wants credentials.
/// Guarantee: what it sends arrives, by each protocol: the SDK sends the token that the sidecar generated.
#[test]
fn sdk_of_a_command_sends_its_token() {
    let Some([python, script]) = sdk() else { return };
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        let backend = MockBackend::start([]);
        let directory = tempfile::tempdir().unwrap();
        let fake = Fake::install(directory.path(), process::ONE_GPU).unwrap();
        let mut command = process::phasemeter(&backend);
        command.envs(fake.environment()).env("OTEL_EXPORTER_OTLP_HEADERS", "key=secret");
        command.args(["run", "--receive", "--no-default-policies", "--"]);
        command.arg(&python).arg(&script).args([protocol, "environment"]);
        let output = command.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "sent everything", "{log}");
        assert!(log.contains("3 requests received, 0 postponed, 0 rejected"), "{protocol}: {log}");
    }
}
