//! `phasemeter flush`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::delivery::{Client, Config, DataDirectory, Destination, Storage, StorageKind};
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
