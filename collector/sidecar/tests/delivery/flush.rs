//! `phasemeter flush`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::delivery::{Client, Config, DataDirectory, Destination, Storage, StorageKind};
use prost::Message;
use tempfile::TempDir;

use crate::mock_backend::{MockBackend, Reply};
use crate::{endpoint, phasemeter, stderr};

/// Scenario: a run could not reach its backend; a second process names its data directory.
/// Guarantee: that is an error while the run lives; then `flush` delivers what it left, with the headers of a file.
#[test]
fn flush_delivers_what_a_run_left() {
    let busy = Reply::Http(StatusCode::SERVICE_UNAVAILABLE, None, "");
    let (backend, dir) = (MockBackend::start([busy.clone(), busy]), TempDir::new().unwrap());
    let (path, headers) = (dir.path().join("data"), dir.path().join("headers"));
    fs::write(&headers, "# of the secret\nx-tenant=a%20b\n").unwrap();
    let endpoint = endpoint(&backend);
    let options = ["flush", "--data-dir", path.to_str().unwrap()];
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("PHASEMETER_OTLP_HEADERS_FILE", headers.to_str().unwrap()),
    ];
    let data = Arc::new(DataDirectory::open(&path, true).unwrap());
    let config = Config::read(Destination::Endpoint(&endpoint), |_| None).unwrap().unwrap();
    let storage = Storage::begin(&data, &config, StorageKind::Own).unwrap();
    let client = Client::start_with(&config, Some(storage)).unwrap();
    let span = Span { name: "kept".to_owned(), ..Span::default() };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let request = EncodedRequest::traces(&ExportTraceServiceRequest { resource_spans });
    client.enqueue(request.clone());
    backend.next_request();
    assert_eq!(client.flush(Duration::ZERO).traces.kept.items, 1);

    let run = phasemeter(&options, &environment);
    assert_eq!(run.status.code(), Some(78), "{}", stderr(&run));
    assert!(stderr(&run).contains("another process uses it"), "{}", stderr(&run));
    drop(data);
    let run = phasemeter(&options, &environment);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let text = String::from_utf8(run.stdout).unwrap();
    // The run may have ended before its second attempt, which is then rejected here.
    assert!(text.starts_with("OTLP: traces, ") && text.contains(": 1 spans sent"), "{text}");
    let received = backend.received().pop().unwrap();
    assert_eq!(&received.body, request.body());
    assert_eq!(received.headers["x-tenant"], "a b");
    assert_eq!(fs::read_dir(path.join("outbox")).unwrap().count(), 0);
    let run = phasemeter(&["flush"], &environment);
    assert_eq!(run.status.code(), Some(78), "{}", stderr(&run));
}

/// A copy of a data directory, for the endpoint of a test.
fn copy(from: &Path, to: &Path, endpoint: &str) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to, endpoint);
        } else if entry.file_name() == "label" {
            let label = fs::read_to_string(entry.path()).unwrap();
            assert_eq!(label.matches("http://backend.test:4318").count(), 3);
            fs::write(to, label.replace("http://backend.test:4318", endpoint)).unwrap();
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Scenario: an older Phasemeter has left a data directory of the first format, with settled requests and a torn record.
/// Guarantee: what was not settled is delivered, in order per signal, and nothing is left.
#[test]
fn directory_of_the_first_format_is_delivered() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../outbox/tests/fixtures/format-1");
    let (backend, dir) = (MockBackend::start([]), TempDir::new().unwrap());
    let (endpoint, data) = (endpoint(&backend), dir.path().join("data"));
    copy(&fixture, &data, &endpoint);
    let options = ["flush", "--data-dir", data.to_str().unwrap()];
    let run = phasemeter(&options, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint)]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let text = String::from_utf8(run.stdout).unwrap();
    for counts in [": 9 spans sent", ": 42 points sent", ": 3 events sent"] {
        assert!(text.contains(counts), "{text}");
    }
    let received = backend.received();
    let bodies = |path| received.iter().filter(move |it| it.path == path).map(|it| it.body.clone());
    let spans: Vec<String> = bodies("/v1/traces")
        .map(|body| ExportTraceServiceRequest::decode(body).unwrap())
        .map(|request| request.resource_spans[0].scope_spans[0].spans[0].name.clone())
        .collect();
    let expected: Vec<_> = (0..9).map(|number| format!("span {number}")).collect();
    assert_eq!(spans, expected);
    let points: Vec<usize> = bodies("/v1/metrics")
        .map(|body| ExportMetricsServiceRequest::decode(body).unwrap())
        .map(|request| request.resource_metrics[0].scope_metrics[0].metrics[0].clone())
        .map(|metric| match metric.data {
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(points, [3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(received.len(), 17);
    assert_eq!(fs::read_dir(data.join("outbox")).unwrap().count(), 0);
}
