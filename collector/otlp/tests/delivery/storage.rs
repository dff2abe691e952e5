//! What is stored survives the client, and arrives before what is newer.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use phasemeter_otlp::delivery::{
    Client, Config, DataDirectory, Outcome, RequestOutcome, Storage, StorageKind, stored_notes,
};
use phasemeter_otlp::{EncodedRequest, Signal};
use tempfile::TempDir;
use tonic::Status;

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::{AT_ONCE, GRACE, PROTOCOLS, config as config_of, plain, points, spans, until};

/// The data directory in a home.
fn data(home: &TempDir) -> Arc<DataDirectory> {
    Arc::new(DataDirectory::open(home.path(), true).unwrap())
}

fn start(config: &Config, data: &Arc<DataDirectory>) -> Client {
    let storage = Storage::begin(data, config, StorageKind::Own).unwrap();
    Client::start_with(config, Some(storage)).unwrap()
}

/// The number of directories of runs.
fn runs(home: &TempDir) -> usize {
    fs::read_dir(home.path().join("outbox")).unwrap().count()
}

/// Scenario: the backend answers nothing useful until the run has ended.
/// Guarantee: the next run sends the same bytes first, then its own, in order; after that, the disk is empty.
#[test]
fn next_run_delivers_what_the_last_one_left_before_its_own() {
    for protocol in PROTOCOLS {
        let home = TempDir::new().unwrap();
        let is_up = Arc::new(AtomicBool::new(false));
        let decides = Arc::clone(&is_up);
        let backend = MockBackend::deciding(move |_| match decides.load(Ordering::Relaxed) {
            true => Reply::Accept,
            false if protocol == "grpc" => Reply::Status(Status::unavailable("down")),
            false => Reply::Http(StatusCode::SERVICE_UNAVAILABLE, None, ""),
        });
        let mut config = plain(&backend, protocol);
        config.retry.initial_interval = Duration::from_secs(60);
        config.retry.max_interval = Duration::from_secs(60);
        let sent: Vec<EncodedRequest> = (0..6).map(|it| spans(&it.to_string(), 1)).collect();

        let data_of_first = data(&home);
        let client = start(&config, &data_of_first);
        sent[..3].iter().for_each(|request| client.enqueue(request.clone()));
        client.enqueue(points(5));
        until(&client, |outcome| kept(outcome) == 4);
        let outcome = client.flush(AT_ONCE);
        assert_eq!((outcome.traces.kept.items, outcome.traces.unsent.items), (3, 3));
        assert_eq!((outcome.metrics.kept.items, outcome.metrics.unsent.items), (5, 5));
        assert!(!outcome.all_sent());
        drop((data_of_first, backend.received()));
        assert_eq!(runs(&home), 1, "it stays");

        let data = data(&home);
        is_up.store(true, Ordering::Relaxed);
        let client = start(&config, &data);
        sent[3..].iter().for_each(|request| client.enqueue(request.clone()));
        let outcome = client.flush(GRACE);
        assert!(outcome.all_sent(), "{outcome:?}");
        assert_eq!((outcome.traces.sent.requests, outcome.metrics.sent.items), (6, 5));
        let path = if protocol == "grpc" { "TraceService" } else { "/v1/traces" };
        let received = backend.received();
        let traces: Vec<_> = received.iter().filter(|it| it.path.contains(path)).collect();
        assert_eq!(traces.len(), 6);
        for (request, export) in traces.iter().zip(&sent) {
            assert!(request.body.ends_with(export.body()), "the same bytes, in order");
        }
        assert_eq!(runs(&home), 0, "nothing is left");
    }
}

fn kept(outcome: &Outcome) -> u64 {
    Signal::ALL.iter().map(|signal| outcome.of(*signal).kept.requests).sum()
}

/// Scenario: the disk fails while the backend is down, and works again at the end of the run.
/// Guarantee: what waited in memory is stored then, and the next run delivers it in order.
#[test]
fn what_the_disk_refused_is_stored_once_it_works_again() {
    let home = TempDir::new().unwrap();
    let is_up = Arc::new(AtomicBool::new(false));
    let decides = Arc::clone(&is_up);
    let backend = MockBackend::deciding(move |_| match decides.load(Ordering::Relaxed) {
        true => Reply::Accept,
        false => Reply::Status(Status::unavailable("down")),
    });
    let config = plain(&backend, "grpc");
    let sent: Vec<EncodedRequest> = (0..4).map(|it| spans(&it.to_string(), 1)).collect();
    let data_of_first = data(&home);
    let client = start(&config, &data_of_first);
    let run = fs::read_dir(home.path().join("outbox")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&run, home.path().join("gone")).unwrap();
    client.enqueue(sent[0].clone());
    // It left from memory, since it could not be stored.
    until(&client, |outcome| outcome.traces.failed_attempts > 0);
    sent[1..].iter().for_each(|request| client.enqueue(request.clone()));
    assert_eq!(kept(&client.stats().read()), 0);
    fs::rename(home.path().join("gone"), &run).unwrap();
    let outcome = client.flush(AT_ONCE).traces;
    assert_eq!((outcome.kept.items, outcome.unsent.items), (4, 4), "{outcome:?}");
    drop((data_of_first, backend.received()));

    is_up.store(true, Ordering::Relaxed);
    assert!(start(&config, &data(&home)).flush(GRACE).all_sent());
    let received = backend.received();
    assert_eq!(received.len(), 4);
    for (request, export) in received.iter().zip(&sent) {
        assert!(request.body.ends_with(export.body()), "the same bytes, in order");
    }
}

/// Scenario: partial success, a rejection, and a request with a receipt.
/// Guarantee: none of it is sent again, or stored longer; the receipt tells that it was stored, and accepted.
#[test]
fn what_has_an_outcome_is_not_stored() {
    let home = TempDir::new().unwrap();
    let backend = MockBackend::start([
        Reply::Partial(2, "old"),
        Reply::Status(Status::invalid_argument("no")),
    ]);
    let (config, data_directory) = (plain(&backend, "grpc"), data(&home));
    let client = start(&config, &data_directory);
    client.enqueue(spans("a", 3));
    until(&client, |outcome| outcome.queued().requests == 0);
    client.enqueue(spans("b", 4));
    until(&client, |outcome| outcome.queued().requests == 0);
    let receipt = client.enqueue_with_receipt(spans("c", 5)).unwrap();
    let outcome = client.flush(GRACE).traces;
    assert_eq!(receipt.outcome(), Some(RequestOutcome::Accepted));
    assert!(receipt.is_stored());
    assert_eq!((outcome.partially_rejected, outcome.rejected.items), (2, 4), "{outcome:?}");
    assert_eq!((outcome.sent.items, outcome.failed_attempts), (6, 0));
    assert_eq!(backend.received().len(), 3);
    assert_eq!(runs(&home), 0);
}

/// Scenario: a run had another backend.
/// Guarantee: what it left stays, and is counted.
#[test]
fn data_for_other_destinations_stays() {
    let home = TempDir::new().unwrap();
    let (down, up) = (Unreachable::reserve(), MockBackend::start([]));
    let config = config_of(&format!("http://{}", down.address), &[("PROTOCOL", "grpc")]);
    let first = data(&home);
    let client = start(&config, &first);
    client.enqueue(spans("a", 1));
    until(&client, |outcome| outcome.traces.kept.requests == 1);
    let _ = client.flush(AT_ONCE);
    drop(first);
    let data = data(&home);
    let config = plain(&up, "grpc");
    let storage = Storage::left(&data, &config).unwrap();
    assert_eq!(storage.others(), 1);
    let client = Client::start_with(&config, Some(storage)).unwrap();
    assert!(client.flush(GRACE).all_sent());
    assert!(up.received().is_empty());
    assert_eq!(runs(&home), 1);
}

/// Scenario: 70 short runs could not deliver, more than are taken over at a time.
/// Guarantee: the oldest are delivered first, and it is known that there are more, until none is left.
#[test]
fn runs_are_taken_over_by_the_oldest_ones() {
    const RUNS: u64 = 70;
    const AT_A_TIME: u64 = 64;
    let home = TempDir::new().unwrap();
    let is_up = Arc::new(AtomicBool::new(false));
    let decides = Arc::clone(&is_up);
    let backend = MockBackend::deciding(move |_| match decides.load(Ordering::Relaxed) {
        true => Reply::Accept,
        false => Reply::Status(Status::unavailable("down")),
    });
    let mut config = plain(&backend, "grpc");
    config.retry.initial_interval = Duration::from_secs(60);
    config.retry.max_interval = Duration::from_secs(60);
    for number in 0..RUNS {
        let data = data(&home);
        let client = start(&config, &data);
        client.enqueue(spans(&number.to_string(), 1));
        until(&client, |outcome| kept(outcome) == number.min(AT_A_TIME) + 1);
        let _ = client.flush(AT_ONCE);
    }
    assert_eq!(runs(&home) as u64, RUNS);
    is_up.store(true, Ordering::Relaxed);
    let data = data(&home);
    for (left, has_more) in [(RUNS - AT_A_TIME, true), (0, false)] {
        let storage = Storage::left(&data, &config).unwrap();
        assert_eq!(storage.has_more(), has_more);
        let client = Client::start_with(&config, Some(storage)).unwrap();
        assert!(client.flush(GRACE).all_sent());
        assert_eq!(runs(&home) as u64, left);
    }
}

/// Scenario: requests with notes and without, of which one is delivered; then the run ends in order.
/// Guarantee: each note is there from when its request is stored until its run ends, and is not sent.
#[test]
fn note_is_there_as_long_as_its_run() {
    let home = TempDir::new().unwrap();
    let backend = MockBackend::start([]);
    let (config, data_directory) = (plain(&backend, "http/protobuf"), data(&home));
    let client = start(&config, &data_directory);
    let sent = spans("a", 3);
    client.enqueue(sent.clone().with_note("first".into()));
    client.enqueue(spans("b", 1));
    let last = client.enqueue_with_receipt(spans("c", 2).with_note("last".into())).unwrap();
    until(&client, |outcome| outcome.queued().requests == 0);
    assert!(last.is_stored());
    assert_eq!(stored_notes(&data_directory).unwrap(), ["first", "last"]);
    assert!(client.flush(GRACE).all_sent());
    assert!(stored_notes(&data_directory).unwrap().is_empty());
    assert_eq!(backend.received()[0].body, sent.into_parts().0);
}
