//! What is sent again, when, and what is given up. No test waits except for a delay requested by the
//! server.

use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{
    Client, OperationEnd, RequestOutcome, ResponseStatus, Retry, Stats,
};
use phasemeter_otlp::duration_histogram::Counts;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::{AT_ONCE, GRACE, PROTOCOLS, config, items, plain, points, records, send, spans, until};

#[test]
fn unavailable_backend_gets_same_bytes_again_in_order() {
    let busy = Reply::Http(StatusCode::SERVICE_UNAVAILABLE, None, "");
    let unavailable = Reply::Status(Status::unavailable("starting"));
    for (protocol, failure) in [("grpc", unavailable), ("http/protobuf", busy)] {
        let script = [failure.clone(), failure.clone(), Reply::Accept, failure];
        let backend = MockBackend::start(script);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        let (first, second) = (spans("first", 1), spans("second", 1));
        client.enqueue(first.clone());
        client.enqueue(second.clone());
        let counts = client.flush(GRACE).traces;
        assert_eq!((counts.sent.requests, counts.failed_attempts), (2, 3));
        let request = backend.received();
        assert_eq!(request.len(), 5);
        for (request, export) in request.iter().zip([&first, &first, &first, &second, &second]) {
            assert!(request.body.ends_with(export.body()));
            assert!(request.body.len() <= export.body().len() + 5);
        }
        assert!(counts.last_error.is_some(), "kept after recovery");
    }
}

/// How the operations of spans ended, as `error.type` and status, and their number.
fn operations(stats: &Stats) -> Vec<(String, Option<ResponseStatus>, u64)> {
    let operations = stats.operations(Signal::Traces).into_iter();
    let ended = operations.map(|(OperationEnd { error_type, status }, counts)| {
        (error_type.unwrap_or_default().into_owned(), status, counts.total())
    });
    ended.collect()
}

/// One observation per export, with the end of the last attempt, and from the first attempt on.
#[test]
fn operation_is_counted_once_with_the_end_of_its_last_attempt() {
    use ResponseStatus::{Grpc, Http};
    let wait = Duration::from_secs(1);
    let retry_info = ErrorDetails::with_retry_info(Some(wait));
    let status = |code| Reply::Status(Status::new(code, ""));
    let quota = Status::with_error_details(Code::ResourceExhausted, "quota", retry_info);
    let grpc = [
        vec![Reply::Status(quota), status(Code::Unavailable), Reply::Accept],
        vec![Reply::Partial(1, "old")],
        vec![status(Code::Aborted), status(Code::PermissionDenied)],
    ];
    let http = |code| Reply::Http(StatusCode::from_u16(code).unwrap(), None, "");
    let http = [
        vec![Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("1"), ""), http(503), Reply::Accept],
        vec![Reply::Partial(1, "old")],
        vec![http(502), http(413)],
    ];
    let denied = "PERMISSION_DENIED";
    let grpc_ends = [("", Grpc("OK")), (denied, Grpc(denied)), ("rejected", Grpc("OK"))];
    let http_ends = [("", Http(200)), ("413", Http(413)), ("rejected", Http(200))];
    for (protocol, script, ends) in [("grpc", grpc, grpc_ends), ("http/protobuf", http, http_ends)]
    {
        let backend = MockBackend::start(script.into_iter().flatten());
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        (0..3).for_each(|_| client.enqueue(spans("step", 3)));
        let stats = client.stats();
        // A flush would end the delay.
        until(&client, |outcome| outcome.queued().requests == 0);
        let _ = client.flush(GRACE);
        let ends = ends.map(|(error_type, status)| (error_type.to_owned(), Some(status), 1));
        assert_eq!(operations(&stats), ends, "{protocol}");
        let all = stats.operations(Signal::Traces);
        let took: Vec<_> = all[0].1.since(&Counts::default()).collect();
        let [(took, 1)] = took[..] else { panic!("{took:?}") };
        assert!(took.as_secs_f64() > 0.9 * wait.as_secs_f64(), "{took:?} without the delay");
    }
    let nowhere = Unreachable::reserve();
    let client = Client::start(&config(&format!("http://{}", nowhere.address), &[])).unwrap();
    client.enqueue(spans("step", 3));
    until(&client, |outcome| outcome.traces.failed_attempts > 0);
    let stats = client.stats();
    assert_eq!(operations(&stats), [], "it is still retried");
    let _ = client.flush(AT_ONCE);
    // A flush without grace does not wait for the worker.
    let began = Instant::now();
    while operations(&stats).is_empty() && began.elapsed() < GRACE {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(operations(&stats), [("connection_error".to_owned(), None, 1)], "it was given up");
}

#[test]
fn retry_delay_requested_by_backend_is_honored() {
    let wait = Duration::from_millis(300);
    let retry_info = ErrorDetails::with_retry_info(Some(wait));
    let exhausted = Status::with_error_details(Code::ResourceExhausted, "quota", retry_info);
    let too_many = Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("1"), "");
    for (protocol, reply) in [("grpc", Reply::Status(exhausted)), ("http/protobuf", too_many)] {
        let backend = MockBackend::start([reply]);
        let started = Instant::now();
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(spans("step", 3));
        until(&client, |outcome| outcome.traces.sent.requests == 1);
        assert!(started.elapsed() >= wait, "{:?}", started.elapsed());
        let counts = client.flush(GRACE).traces;
        assert_eq!(items(&counts), [3, 0, 0, 0, 0]);
        assert_eq!(counts.failed_attempts, 1);
    }
}

#[test]
fn flush_interrupts_own_retry_delay() {
    let backend = MockBackend::start([Reply::Status(Status::unavailable("starting"))]);
    let mut config = plain(&backend, "grpc");
    let hour = Duration::from_secs(3600);
    config.retry = Retry { initial_interval: hour, max_interval: hour };
    let client = Client::start(&config).unwrap();
    client.enqueue(spans("step", 3));
    backend.next_request();
    assert_eq!(items(&client.flush(GRACE).traces), [3, 0, 0, 0, 0]);
}

#[test]
fn retry_delay_beyond_grace_ends_flush_immediately() {
    let busy = Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("3000"), "");
    // The first attempt may begin before the flush, and the one of the flush follows.
    let backend = MockBackend::start([busy.clone(), busy]);
    let started = Instant::now();
    let counts = send(&plain(&backend, "http/protobuf"));
    assert!(started.elapsed() < GRACE);
    assert_eq!(items(&counts), [0, 0, 0, 0, 3]);
    assert_eq!(counts.last_error.as_deref(), Some("429 Too Many Requests"));
}

/// The backend may have recovered, and there is no later attempt.
#[test]
fn flush_makes_one_attempt_whatever_delay_was_requested() {
    for (protocol, reply) in [
        ("http/protobuf", Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("3600"), "")),
        ("grpc", {
            let hour = ErrorDetails::with_retry_info(Some(Duration::from_secs(3_600)));
            Reply::Status(Status::with_error_details(Code::Unavailable, "later", hour))
        }),
    ] {
        let backend = MockBackend::start([reply]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(spans("first", 3));
        client.enqueue(spans("second", 2));
        until(&client, |outcome| outcome.traces.failed_attempts == 1);
        let started = Instant::now();
        let counts = client.flush(GRACE).traces;
        assert_eq!(items(&counts), [5, 0, 0, 0, 0], "{protocol}: {counts:?}");
        assert!(started.elapsed() < GRACE / 2);
    }
}

/// A proxy, a login page or another service answers 200, too.
#[test]
fn success_that_is_not_otlp_is_not_accepted() {
    let page = Reply::Http(StatusCode::OK, None, "<html>log in</html>");
    let backend = MockBackend::start([page.clone(), Reply::Accept, page]);
    let client = Client::start(&plain(&backend, "http/protobuf")).unwrap();
    let receipts = [1, 2, 4].map(|number| client.enqueue_with_receipt(spans("step", number)));
    let receipts = receipts.map(Option::unwrap);
    let stats = client.stats();
    let counts = client.flush(GRACE).traces;
    assert_eq!(items(&counts), [2, 0, 5, 0, 0], "{counts:?}");
    let outcomes = receipts.map(|receipt| receipt.outcome().unwrap());
    assert_eq!(
        outcomes,
        [RequestOutcome::Refused, RequestOutcome::Accepted, RequestOutcome::Refused]
    );
    assert_eq!(
        counts.last_error.as_deref(),
        Some("200 OK, but no OTLP response: <html>log in</html>")
    );
    assert_eq!(backend.received().len(), 3, "it is not sent again");
    let ends = operations(&stats).into_iter().map(|(kind, ..)| kind);
    assert_eq!(ends.collect::<Vec<_>>(), ["", "invalid_response"]);
}

/// The outcome is that of the request, whatever became of others.
#[test]
fn receipt_tells_whether_a_request_was_accepted() {
    let http = |code: u16| Reply::Http(StatusCode::from_u16(code).unwrap(), None, "");
    let refused =
        [http(400), http(401), http(413), Reply::Partial(3, "old"), Reply::Partial(1, "")];
    for reply in refused {
        let backend = MockBackend::start([http(503), reply, Reply::Accept]);
        let client = Client::start(&plain(&backend, "http/protobuf")).unwrap();
        let receipts = [3, 3].map(|number| client.enqueue_with_receipt(spans("step", number)));
        let receipts = receipts.map(Option::unwrap);
        let _ = client.flush(GRACE);
        let outcomes = receipts.map(|receipt| receipt.outcome().unwrap());
        assert_eq!(outcomes, [RequestOutcome::Refused, RequestOutcome::Accepted]);
    }
    let nowhere = Unreachable::reserve();
    let client = Client::start(&config(&format!("http://{}", nowhere.address), &[])).unwrap();
    let receipt = client.enqueue_with_receipt(spans("step", 1)).unwrap();
    let _ = client.flush(AT_ONCE);
    assert_eq!(receipt.outcome(), None, "it may or may not have arrived");
}

/// All meters export at the same instants: each sends at an offset of its own.
#[test]
fn metrics_and_spans_are_sent_at_the_offset_of_the_instance() {
    let backend = MockBackend::start([]);
    let offset = Duration::from_millis(300);
    let client = Client::start(&plain(&backend, "http/protobuf")).unwrap();
    client.set_send_offset(offset);
    let began = Instant::now();
    client.enqueue(points(1));
    client.enqueue(spans("step", 1));
    client.enqueue(records(1));
    let paths = [(); 3].map(|()| {
        let path = backend.next_request().path;
        (path.contains("logs"), path.contains("logs") || began.elapsed() >= offset)
    });
    assert_eq!(paths.map(|(_, is_in_time)| is_in_time), [true; 3]);
    assert!(paths[0].0, "events are not delayed");

    let client = Client::start(&plain(&backend, "grpc")).unwrap();
    client.set_send_offset(2 * GRACE);
    client.enqueue(points(1));
    assert!(client.flush(GRACE).all_sent(), "a flush waits for no offset");
}

#[test]
fn rejected_request_is_dropped_and_next_is_sent() {
    let exhausted = Reply::Status(Status::resource_exhausted("quota"));
    let bad = Reply::Http(StatusCode::BAD_REQUEST, None, "no such experiment\n");
    for (protocol, reply, reason) in [
        ("grpc", exhausted, "ResourceExhausted: quota"),
        ("http/protobuf", bad, "400 Bad Request: no such experiment"),
    ] {
        let backend = MockBackend::start([reply]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(spans("rejected", 3));
        client.enqueue(spans("sent", 2));
        let outcome = client.flush(GRACE);
        assert!(!outcome.all_sent());
        assert_eq!(items(&outcome.traces), [2, 0, 3, 0, 0]);
        assert_eq!(outcome.traces.last_error.as_deref(), Some(reason));
        assert_eq!(backend.received().len(), 2);
    }
}

#[test]
fn partial_success_is_counted_and_not_retried() {
    for protocol in PROTOCOLS {
        let backend =
            MockBackend::start([Reply::Partial(2, "too old"), Reply::Partial(0, "slow down")]);
        let client = Client::start(&plain(&backend, protocol)).unwrap();
        client.enqueue(points(5));
        let mut counts = client.flush(GRACE).metrics;
        assert_eq!(items(&counts), [3, 2, 0, 0, 0]);
        assert_eq!(counts.last_error.take().as_deref(), Some("too old"));
        assert_eq!(backend.received().len(), 1);

        let warned = send(&plain(&backend, protocol));
        assert_eq!(items(&warned), [3, 0, 0, 0, 0]);
        assert_eq!(warned.last_error.as_deref(), Some("slow down"));
    }
}

#[test]
fn unresponsive_backend_is_retried_on_new_connection() {
    for protocol in PROTOCOLS {
        let backend = MockBackend::start([Reply::NoResponse]);
        let endpoint = format!("http://{}", backend.address);
        let counts = send(&config(&endpoint, &[("PROTOCOL", protocol), ("TIMEOUT", "200")]));
        assert_eq!(items(&counts), [3, 0, 0, 0, 0]);
        assert_eq!(counts.last_error.as_deref(), Some("no answer within 200ms"));
        assert!(backend.received().len() >= 2);
    }
}

#[test]
fn refused_connection_leaves_data_unsent() {
    for protocol in PROTOCOLS {
        let backend = Unreachable::reserve();
        let config = config(&format!("http://{}", backend.address), &[("PROTOCOL", protocol)]);
        let client = Client::start(&config).unwrap();
        client.enqueue(spans("step", 3));
        until(&client, |outcome| outcome.traces.failed_attempts > 0);
        let counts = client.flush(AT_ONCE).traces;
        assert_eq!(items(&counts), [0, 0, 0, 0, 3]);
        let reason = counts.last_error.unwrap();
        assert!(reason.contains("Connection refused"), "{reason}");
    }
}
