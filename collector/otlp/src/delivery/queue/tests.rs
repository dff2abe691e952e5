//! What is taken, dropped, retried and counted.

use super::{
    Batch, Batching, BySignal, Count, EncodedRequest, ExportResponse, Queue, Receipt,
    RequestOutcome, Signal,
};
use proptest::prelude::*;
use std::sync::mpsc;
use std::time::Duration;

const CAPACITY: u64 = 100;

/// Each request leaves alone, after the one before it.
const ALONE: Batching =
    Batching { max_bytes: BySignal { traces: 0, metrics: 0, logs: 0 }, consumers: 1 };
const AT_ONCE: Duration = Duration::ZERO;

fn request(signal: Signal, items: u64, bytes: usize) -> EncodedRequest {
    EncodedRequest::new(signal, items, vec![0; bytes].into())
}

fn accepted() -> ExportResponse {
    ExportResponse::Accepted { rejected: 0, message: String::new() }
}

fn retry() -> ExportResponse {
    ExportResponse::Retry { after: None, reason: "down".to_owned() }
}

#[test]
fn oldest_request_is_dropped_across_signals() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    queue.push(request(Signal::Traces, 1, 40));
    queue.push(request(Signal::Metrics, 2, 40));
    queue.push(request(Signal::Metrics, 3, 40));
    queue.push(request(Signal::Logs, 4, 40));
    let outcome = queue.outcome();
    assert_eq!(outcome.traces.dropped, Count { requests: 1, items: 1, bytes: 40 });
    assert_eq!(outcome.metrics.dropped, Count { requests: 1, items: 2, bytes: 40 });
    assert_eq!(outcome.logs.dropped, Count::default());
    assert_eq!(queue.take(Signal::Metrics, 0).map(|taken| taken.count().items), Some(3));
}

/// What was dropped is returned at once, and each request has one outcome.
#[test]
fn receipt_has_the_outcome_of_its_request() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    let (refused, _) = queue.push(request(Signal::Logs, 1, 10));
    let (retried, _) = queue.push(request(Signal::Metrics, 1, 10));
    let (partial, _) = queue.push(request(Signal::Traces, 2, 10));
    assert_eq!([&refused, &retried, &partial].map(Receipt::outcome), [None; 3]);
    let complete = |signal, response: &ExportResponse| {
        queue.complete(queue.take(signal, 0).unwrap(), 0, response);
    };
    complete(Signal::Metrics, &retry());
    complete(Signal::Logs, &ExportResponse::unreadable("200 OK", "<html>"));
    let rejected = ExportResponse::Accepted { rejected: 1, message: String::new() };
    complete(Signal::Traces, &rejected);
    let outcomes = [&refused, &retried, &partial].map(Receipt::outcome);
    assert_eq!(outcomes, [Some(RequestOutcome::Refused), None, Some(RequestOutcome::Refused)]);
    assert_eq!(queue.outcome().logs.rejected.items, 1);
    complete(Signal::Metrics, &accepted());
    assert_eq!(retried.outcome(), Some(RequestOutcome::Accepted));

    let (old, dropped) = queue.push(request(Signal::Traces, 3, 60));
    assert_eq!((old.outcome(), dropped.traces), (None, Count::default()));
    let (_, dropped) = queue.push(request(Signal::Logs, 4, 60));
    assert_eq!(dropped.traces, Count { requests: 1, items: 3, bytes: 60 });
    let (large, dropped) = queue.push(request(Signal::Logs, 5, 101));
    assert_eq!((old.outcome(), large.outcome()), (Some(RequestOutcome::Dropped), old.outcome()));
    assert_eq!(dropped.logs.items, 5);
}

#[tokio::test(start_paused = true)]
async fn time_until_full_follows_from_the_rate_so_far() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    assert_eq!(queue.time_until_full(), Duration::from_nanos(u64::MAX));
    tokio::time::advance(Duration::from_secs(60)).await;
    queue.push(request(Signal::Traces, 1, 25));
    assert_eq!(queue.time_until_full(), Duration::from_secs(180));
    queue.push(request(Signal::Traces, 1, 75));
    assert_eq!(queue.time_until_full(), Duration::ZERO);
}

#[test]
fn request_in_flight_is_counted_and_not_dropped() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    queue.push(request(Signal::Traces, 1, 60));
    let sent = queue.take(Signal::Traces, 0).unwrap();
    queue.push(request(Signal::Traces, 2, 60));
    assert_eq!(queue.take(Signal::Traces, 0), None, "the newer one had to go");
    queue.complete(sent, 0, &accepted());
    let counts = queue.outcome().traces;
    assert_eq!((counts.sent.items, counts.dropped.items), (1, 2));
    assert_eq!(counts.unsent, Count::default());
}

#[test]
fn wait_for_space_ends_with_space_or_patience() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    queue.push(request(Signal::Traces, 1, 60));
    let next = request(Signal::Traces, 2, 60);
    queue.wait_for_space(&next, AT_ONCE);
    assert!(queue.lock().stalled, "nothing left in time");

    let sent = queue.take(Signal::Traces, 0).unwrap();
    queue.complete(sent, 0, &accepted());
    assert!(!queue.lock().stalled, "something left");

    queue.push(next.clone());
    let sent = queue.take(Signal::Traces, 0).unwrap();
    let (done, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            queue.wait_for_space(&next, Duration::MAX);
            done.send(()).unwrap();
        });
        queue.complete(sent, 0, &accepted());
        waits.recv_timeout(Duration::from_secs(60)).unwrap();
    });
}

/// An operation on the queue.
#[derive(Clone, Debug)]
enum Step {
    Push(Signal, u64, usize),
    Take(Signal),
    Complete(Signal, ExportResponse),
}

fn step() -> impl Strategy<Value = Step> {
    let signal = || prop::sample::select(Signal::ALL.to_vec());
    let response = prop_oneof![
        (0_u64..9).prop_map(|rejected| ExportResponse::Accepted {
            rejected,
            message: "partly".to_owned()
        }),
        Just(ExportResponse::Rejected { reason: "no".to_owned() }),
        Just(retry()),
    ];
    prop_oneof![
        (signal(), 1_u64..9, 1_usize..=120).prop_map(|(s, i, b)| Step::Push(s, i, b)),
        signal().prop_map(Step::Take),
        (signal(), response).prop_map(|(s, a)| Step::Complete(s, a)),
    ]
}

proptest! {
    /// At every moment, the bound holds, every item is in exactly one count, and a signal's
    /// requests leave in order.
    #[test]
    fn nothing_is_lost_in_silence(steps in prop::collection::vec(step(), 0..200)) {
        let queue = Queue::new(CAPACITY, ALONE, None);
        let mut pushed = 0;
        let mut flying: BySignal<Option<Batch>> = BySignal::default();
        let mut done: BySignal<Option<u64>> = BySignal::default();
        for step in steps {
            match step {
                Step::Push(signal, items, bytes) => {
                    pushed += items;
                    queue.push(request(signal, items, bytes));
                }
                Step::Take(signal) => {
                    let flying = flying.get_mut(signal);
                    if flying.is_none() {
                        *flying = queue.take(signal, 0);
                    }
                }
                Step::Complete(signal, response) => {
                    if let Some(queued) = flying.get_mut(signal).take() {
                        if !matches!(response, ExportResponse::Retry { .. }) {
                            prop_assert!(*done.of(signal) < Some(queued.number()));
                            *done.get_mut(signal) = Some(queued.number());
                        }
                        queue.complete(queued, 0, &response);
                    }
                }
            }
            let outcome = queue.outcome();
            prop_assert!(outcome.queued().bytes <= CAPACITY);
            let counted: u64 = outcome
                .iter()
                .map(|(_, counts)| {
                    counts.sent.items
                        + counts.partially_rejected
                        + counts.rejected.items
                        + counts.dropped.items
                        + counts.unsent.items
                })
                .sum();
            prop_assert_eq!(counted, pushed);
            let held: u64 = queue
                .lock()
                .waiting
                .iter()
                .flat_map(|(_, waiting)| waiting)
                .chain(flying.iter().flat_map(|(_, it)| it.iter().flat_map(Batch::parts)))
                .map(|queued| queued.body.memory())
                .sum();
            prop_assert_eq!(held, outcome.queued().bytes);
            prop_assert_eq!(held, queue.lock().memory);
        }
    }
}

const BATCHES: Batching =
    Batching { max_bytes: BySignal { traces: 15, metrics: 15, logs: 15 }, consumers: 2 };

/// A request of five bytes of one resource.
fn of(resource: u8) -> EncodedRequest {
    of_signal(Signal::Traces, resource)
}

fn of_signal(signal: Signal, resource: u8) -> EncodedRequest {
    EncodedRequest::new(signal, 1, vec![10, 3, 10, 1, resource].into())
}

fn bodies(queue: &Queue, taken: Option<Batch>) -> Vec<u8> {
    let body = taken.and_then(|taken| queue.body(taken)).map(|(_, body)| body).unwrap_or_default();
    body.chunks(5).map(|request| request[4]).collect()
}

#[test]
fn small_requests_leave_as_one() {
    let queue = Queue::new(CAPACITY, BATCHES, None);
    (0..5).for_each(|number| drop(queue.push(of(number))));
    let first = queue.take(Signal::Traces, 0).unwrap();
    assert_eq!(first.count(), Count { requests: 3, items: 3, bytes: 15 });
    queue.complete(first, 0, &accepted());
    queue.push(request(Signal::Traces, 1, 16));
    assert_eq!(bodies(&queue, queue.take(Signal::Traces, 0)), [3, 4]);
    assert_eq!(queue.take(Signal::Traces, 0).unwrap().count().bytes, 16, "larger ones leave alone");
    assert_eq!(queue.outcome().traces.sent, Count { requests: 3, items: 3, bytes: 15 });
}

/// A backend that has stored two rounds of a resource rejects the first of them if it arrives again alone.
#[test]
fn metrics_of_a_resource_leave_one_request_after_another() {
    let queue = Queue::new(CAPACITY, BATCHES, None);
    let push = |resource| drop(queue.push(of_signal(Signal::Metrics, resource)));
    [b'a', b'a', b'b', b'a'].into_iter().for_each(push);
    for expected in [&b"ab"[..], b"a", b"a"] {
        let first = queue.take(Signal::Metrics, 0).unwrap();
        queue.complete(first, 0, &retry());
        let (again, body) = queue.body(queue.take(Signal::Metrics, 0).unwrap()).unwrap();
        assert_eq!(body.chunks(5).map(|request| request[4]).collect::<Vec<_>>(), expected);
        queue.complete(again, 0, &accepted());
    }
}

#[test]
fn capacity_grows_and_never_shrinks() {
    let queue = Queue::new(CAPACITY, ALONE, None);
    queue.push(request(Signal::Metrics, 1, 60));
    queue.grow(2 * CAPACITY);
    queue.grow(CAPACITY);
    assert_eq!(queue.capacity(), 2 * CAPACITY);
    let (_, dropped) = queue.push(request(Signal::Metrics, 1, 60));
    assert_eq!(dropped.metrics, Count::default());
}

#[test]
fn data_of_a_resource_stays_in_order_while_others_are_in_flight() {
    let queue = Queue::new(CAPACITY, Batching { consumers: 2, ..ALONE }, None);
    [b'a', b'a', b'b', b'a'].into_iter().for_each(|resource| drop(queue.push(of(resource))));
    let first = queue.take(Signal::Traces, 0).unwrap();
    let other = queue.take(Signal::Traces, 1).unwrap();
    assert_eq!(other.number(), 2, "the next one of a resource that is not in flight");
    assert_eq!(queue.take(Signal::Traces, 1), None);
    queue.complete(first, 0, &retry());
    queue.complete(other, 1, &accepted());
    assert_eq!(queue.take(Signal::Traces, 1), None, "while one fails, the others wait");
    let again = queue.take(Signal::Traces, 0).unwrap();
    assert_eq!(again.number(), 0);
    queue.complete(again, 0, &accepted());
    assert_eq!(queue.take(Signal::Traces, 1).unwrap().number(), 1);
}

#[test]
fn requests_that_are_rejected_as_one_are_sent_one_by_one() {
    let queue = Queue::new(CAPACITY, BATCHES, None);
    (0..3).for_each(|number| drop(queue.push(of(number))));
    queue.divide(queue.take(Signal::Traces, 0).unwrap());
    let rejected = ExportResponse::Rejected { reason: "no".to_owned() };
    for (number, response) in [accepted(), rejected, accepted()].iter().enumerate() {
        let taken = queue.take(Signal::Traces, 0).unwrap();
        assert_eq!((taken.number(), taken.is_batch()), (number as u64, false));
        queue.complete(taken, 0, response);
    }
    let counts = queue.outcome().traces;
    assert_eq!((counts.sent.items, counts.rejected.items), (2, 1));
}
