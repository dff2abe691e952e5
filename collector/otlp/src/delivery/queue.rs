//! The sending queue: requests in memory, in order within a signal, bounded in bytes over all
//! signals. If it is full, the oldest request of any signal is dropped, so a backend that is down
//! loses its own old requests before another's new ones.
//!
//! Every request is counted here from its arrival to its outcome, under one lock, so that the
//! counts always add up. The lock is held only while moving a pointer. Must not depend on the
//! network; a store on disk can replace it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::outcome::{Count, Outcome, Receipt, RequestOutcome};
use super::response::ExportResponse;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The Collector's `sending_queue`, in memory.
#[derive(Debug)]
pub(super) struct Queue {
    /// In encoded bytes, including requests in flight.
    capacity: u64,
    started: Instant,
    /// The delay of signals that all meters send at the same instants.
    offset: OnceLock<Duration>,
    state: Mutex<State>,
    /// Notifies the worker of a signal.
    arrived: BySignal<Notify>,
    /// Notifies a caller that waits for free space.
    space: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: BySignal<VecDeque<Queued>>,
    outcome: Outcome,
    /// The number of the next request.
    next: u64,
    /// Encoded bytes of all requests so far.
    pushed: u64,
    /// No request has left since a caller gave up waiting.
    stalled: bool,
}

/// A request with its sequence number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) request: EncodedRequest,
    pub(super) arrived: Instant,
    receipt: Receipt,
}

impl Queue {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            started: Instant::now(),
            offset: OnceLock::new(),
            state: Mutex::default(),
            arrived: BySignal::default(),
            space: Condvar::new(),
        }
    }

    /// Adds a request without waiting: if there is no space, the oldest are dropped. Returns its receipt,
    /// and what was dropped.
    pub(super) fn push(&self, request: EncodedRequest) -> (Receipt, BySignal<Count>) {
        let signal = request.signal();
        let pushed = self.lock().push(request, self.capacity);
        self.arrived.of(signal).notify_one();
        pushed
    }

    /// Sets the delay of metrics and spans, once.
    pub(super) fn set_offset(&self, offset: Duration) {
        let _ = self.offset.set(offset);
    }

    /// When a request is to be sent at the earliest, unless the client closes.
    pub(super) fn due(&self, queued: &Queued) -> Instant {
        let offset = match queued.request.signal() {
            Signal::Traces | Signal::Metrics => self.offset.get().copied().unwrap_or_default(),
            Signal::Logs => Duration::ZERO,
        };
        queued.arrived + offset
    }

    /// How long the queue can take more requests if nothing leaves it and they arrive as fast as so far.
    pub(super) fn time_until_full(&self) -> Duration {
        let state = self.lock();
        let free = self.capacity.saturating_sub(state.bytes());
        let nanos = self.started.elapsed().as_nanos().saturating_mul(free.into());
        let nanos = nanos.checked_div(state.pushed.into()).unwrap_or(u128::MAX);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until this request fits. Gives up once nothing has left for `patience`, and does not
    /// wait again until something has.
    pub(super) fn wait_for_space(&self, request: &EncodedRequest, patience: Duration) {
        let size = Count::of(request).bytes;
        let mut state = self.lock();
        while !state.stalled && size <= self.capacity && state.bytes() + size > self.capacity {
            let woken = self.space.wait_timeout(state, patience);
            let (next, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = next;
            state.stalled |= timeout.timed_out();
        }
    }

    /// Takes the oldest request of a signal to send it. It counts as queued until it is completed,
    /// but can no longer be dropped.
    pub(super) fn take(&self, signal: Signal) -> Option<Queued> {
        self.lock().waiting.get_mut(signal).pop_front()
    }

    /// Returns once a request may have arrived since the last call.
    pub(super) async fn arrived(&self, signal: Signal) {
        self.arrived.of(signal).notified().await;
    }

    /// Counts a request by its response. A request to be retried returns to its position.
    pub(super) fn complete(&self, queued: Queued, response: &ExportResponse) {
        let mut state = self.lock();
        let counts = state.outcome.get_mut(queued.request.signal());
        let count = Count::of(&queued.request);
        if let Some(outcome) = RequestOutcome::of(response) {
            queued.receipt.set(outcome);
        }
        match response {
            ExportResponse::Accepted { rejected, message } => {
                let rejected = (*rejected).min(count.items);
                counts.unsent -= count;
                counts.sent += Count { items: count.items - rejected, ..count };
                counts.partially_rejected += rejected;
                if !message.is_empty() {
                    counts.last_error = Some(message.clone());
                }
            }
            ExportResponse::Rejected { reason } | ExportResponse::Unreadable { reason } => {
                counts.unsent -= count;
                counts.rejected += count;
                counts.last_error = Some(reason.clone());
            }
            ExportResponse::Retry { reason, .. } => {
                counts.failed_attempts += 1;
                counts.last_error = Some(reason.clone());
                state.waiting.get_mut(queued.request.signal()).push_front(queued);
                return;
            }
        }
        state.stalled = false;
        drop(state);
        self.space.notify_all();
    }

    /// The outcome of all requests so far.
    pub(super) fn outcome(&self) -> Outcome {
        self.lock().outcome.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, request: EncodedRequest, capacity: u64) -> (Receipt, BySignal<Count>) {
        let (receipt, mut dropped) = (Receipt::default(), BySignal::<Count>::default());
        let signal = request.signal();
        let size = Count::of(&request);
        if size.bytes > capacity {
            self.outcome.get_mut(signal).dropped += size;
            *dropped.get_mut(signal) += size;
            receipt.set(RequestOutcome::Dropped);
            return (receipt, dropped);
        }
        self.outcome.get_mut(signal).unsent += size;
        self.pushed = self.pushed.saturating_add(size.bytes);
        let (number, arrived) = (self.next, Instant::now());
        self.next += 1;
        let queued = Queued { number, request, arrived, receipt: receipt.clone() };
        self.waiting.get_mut(signal).push_back(queued);
        while self.bytes() > capacity
            && let Some(oldest) = self.drop_oldest()
        {
            *dropped.get_mut(oldest.signal()) += Count::of(&oldest);
        }
        (receipt, dropped)
    }

    /// `None` if the queue is empty.
    fn drop_oldest(&mut self) -> Option<EncodedRequest> {
        let fronts = self.waiting.iter().filter_map(|(_, waiting)| waiting.front());
        let signal = fronts.min_by_key(|queued| queued.number)?.request.signal();
        let Queued { request, receipt, .. } = self.waiting.get_mut(signal).pop_front()?;
        let (counts, size) = (self.outcome.get_mut(signal), Count::of(&request));
        counts.unsent -= size;
        counts.dropped += size;
        receipt.set(RequestOutcome::Dropped);
        Some(request)
    }

    fn bytes(&self) -> u64 {
        self.outcome.queued().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Count, EncodedRequest, ExportResponse, Queue, Queued, Receipt, RequestOutcome, Signal,
    };
    use proptest::prelude::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const CAPACITY: u64 = 100;
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
        let queue = Queue::new(CAPACITY);
        queue.push(request(Signal::Traces, 1, 40));
        queue.push(request(Signal::Metrics, 2, 40));
        queue.push(request(Signal::Metrics, 3, 40));
        queue.push(request(Signal::Logs, 4, 40));
        let outcome = queue.outcome();
        assert_eq!(outcome.traces.dropped, Count { requests: 1, items: 1, bytes: 40 });
        assert_eq!(outcome.metrics.dropped, Count { requests: 1, items: 2, bytes: 40 });
        assert_eq!(outcome.logs.dropped, Count::default());
        assert_eq!(queue.take(Signal::Metrics).map(|queued| queued.request.items()), Some(3));
    }

    /// What was dropped is returned at once, and each request has one outcome.
    #[test]
    fn receipt_has_the_outcome_of_its_request() {
        let queue = Queue::new(CAPACITY);
        let (refused, _) = queue.push(request(Signal::Logs, 1, 10));
        let (retried, _) = queue.push(request(Signal::Metrics, 1, 10));
        let (partial, _) = queue.push(request(Signal::Traces, 2, 10));
        assert_eq!([&refused, &retried, &partial].map(Receipt::outcome), [None; 3]);
        let complete = |signal, response: &ExportResponse| {
            queue.complete(queue.take(signal).unwrap(), response);
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
        assert_eq!(
            (old.outcome(), large.outcome()),
            (Some(RequestOutcome::Dropped), old.outcome())
        );
        assert_eq!(dropped.logs.items, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn time_until_full_follows_from_the_rate_so_far() {
        let queue = Queue::new(CAPACITY);
        assert_eq!(queue.time_until_full(), Duration::from_nanos(u64::MAX));
        tokio::time::advance(Duration::from_secs(60)).await;
        queue.push(request(Signal::Traces, 1, 25));
        assert_eq!(queue.time_until_full(), Duration::from_secs(180));
        queue.push(request(Signal::Traces, 1, 75));
        assert_eq!(queue.time_until_full(), Duration::ZERO);
    }

    #[test]
    fn request_in_flight_is_counted_and_not_dropped() {
        let queue = Queue::new(CAPACITY);
        queue.push(request(Signal::Traces, 1, 60));
        let sent = queue.take(Signal::Traces).unwrap();
        queue.push(request(Signal::Traces, 2, 60));
        assert_eq!(queue.take(Signal::Traces), None, "the newer one had to go");
        queue.complete(sent, &accepted());
        let counts = queue.outcome().traces;
        assert_eq!((counts.sent.items, counts.dropped.items), (1, 2));
        assert_eq!(counts.unsent, Count::default());
    }

    #[test]
    fn wait_for_space_ends_with_space_or_patience() {
        let queue = Queue::new(CAPACITY);
        queue.push(request(Signal::Traces, 1, 60));
        let next = request(Signal::Traces, 2, 60);
        queue.wait_for_space(&next, AT_ONCE);
        assert!(queue.lock().stalled, "nothing left in time");

        let sent = queue.take(Signal::Traces).unwrap();
        queue.complete(sent, &accepted());
        assert!(!queue.lock().stalled, "something left");

        queue.push(next.clone());
        let sent = queue.take(Signal::Traces).unwrap();
        let (done, waits) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.wait_for_space(&next, Duration::MAX);
                done.send(()).unwrap();
            });
            queue.complete(sent, &accepted());
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
            let queue = Queue::new(CAPACITY);
            let mut pushed = 0;
            let mut flying: super::BySignal<Option<Queued>> = super::BySignal::default();
            let mut done: super::BySignal<Option<u64>> = super::BySignal::default();
            for step in steps {
                match step {
                    Step::Push(signal, items, bytes) => {
                        pushed += items;
                        queue.push(request(signal, items, bytes));
                    }
                    Step::Take(signal) => {
                        let flying = flying.get_mut(signal);
                        if flying.is_none() {
                            *flying = queue.take(signal);
                        }
                    }
                    Step::Complete(signal, response) => {
                        if let Some(queued) = flying.get_mut(signal).take() {
                            if !matches!(response, ExportResponse::Retry { .. }) {
                                prop_assert!(*done.of(signal) < Some(queued.number));
                                *done.get_mut(signal) = Some(queued.number);
                            }
                            queue.complete(queued, &response);
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
                let held: usize = queue
                    .lock()
                    .waiting
                    .iter()
                    .flat_map(|(_, waiting)| waiting)
                    .chain(flying.iter().filter_map(|(_, queued)| queued.as_ref()))
                    .map(|queued| queued.request.body().len())
                    .sum();
                prop_assert_eq!(held as u64, outcome.queued().bytes);
            }
        }
    }
}
