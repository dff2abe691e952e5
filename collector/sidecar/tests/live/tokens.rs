//! A token for the backend that is replaced while a run lasts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use phasemeter_process::send;
use rustix::process::Signal;
use tonic::Status;

use crate::Rig;
use crate::mock_backend::{MockBackend, ReceivedRequest, Reply};
use crate::run::{NO_POLICIES, phasemeter, started};
use crate::signals::wait;

/// Writes a version of a secret as Kubernetes mounts it: the file is a link into a directory, and a link to that is
/// replaced.
fn project(volume: &Path, token: usize) {
    let version = volume.join(format!("..{token}"));
    fs::create_dir(&version).unwrap();
    fs::write(version.join("headers"), format!("authorization=Bearer%20{token}\n")).unwrap();
    symlink(format!("..{token}"), volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

fn token(request: &ReceivedRequest) -> Option<usize> {
    let header = request.headers.get("authorization")?.to_str().ok()?;
    header.strip_prefix("Bearer ")?.parse().ok()
}

/// Scenario: the backend demands another token, some time before the mounted secret has it; and once more, after the
/// secret had it.
/// Guarantee: all signals and the internal telemetry are sent with the current one, and nothing is lost.
#[test]
fn token_that_is_replaced_is_used_without_a_restart() {
    let refusals = [
        ("http/protobuf", Reply::Http(StatusCode::UNAUTHORIZED, None, "expired")),
        ("http/protobuf", Reply::Http(StatusCode::FORBIDDEN, None, "expired")),
        ("grpc", Reply::Status(Status::unauthenticated("expired"))),
        ("grpc", Reply::Status(Status::permission_denied("expired"))),
    ];
    for (protocol, refusal) in refusals {
        let demanded = Arc::new(AtomicUsize::new(1));
        let demands = Arc::clone(&demanded);
        let backend = MockBackend::deciding(move |request| {
            let is_current = token(request) == Some(demands.load(Ordering::Relaxed));
            if is_current { Reply::Accept } else { refusal.clone() }
        });
        let volume = tempfile::tempdir().unwrap();
        project(volume.path(), 1);
        let headers = volume.path().join("headers");
        symlink("..data/headers", &headers).unwrap();
        let rig = Rig::new("length_ms = 600000\n[[device]]");
        let options = format!(
            "--otlp-headers-file {} --fail-on-undelivered {NO_POLICIES}",
            headers.display()
        );
        let mut command = phasemeter(&rig, &options);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        // What the file has precedes it.
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%200");
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        let (mut run, log) = started(&mut command);
        let wait_for = |wanted: usize| {
            while token(&backend.next_request()).unwrap() != wanted {}
        };
        wait_for(1);
        demanded.store(2, Ordering::Relaxed);
        backend.received();
        (0..3).for_each(|_| assert_eq!(token(&backend.next_request()), Some(1)));
        project(volume.path(), 2);
        wait_for(2);
        project(volume.path(), 3);
        demanded.store(3, Ordering::Relaxed);
        wait_for(3);
        send(run.0.id(), Signal::TERM.as_raw()).unwrap();
        assert_eq!(wait(&mut run.0), Some(0), "{protocol}: {}", log.rest());
        let without = backend.received().into_iter().find(|it| token(it).is_none_or(|it| it < 2));
        assert!(without.is_none(), "{protocol}: {without:?}");
    }
}
