//! The sending queue: requests in memory, in order within a signal, bounded in bytes over all
//! signals. If it is full, the oldest request of any signal is dropped, so a backend that is down
//! loses its own old requests before another's new ones.
//!
//! Every request is counted here from its arrival to its outcome, under one lock, so that the
//! counts always add up. The lock is held only while moving a pointer. Must not depend on the
//! network; a store on disk can replace it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::outcome::{Count, Outcome};
use super::response::ExportResponse;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The Collector's `sending_queue`, in memory.
#[derive(Debug)]
pub(super) struct Queue {
    /// In encoded bytes, including requests in flight.
    capacity: u64,
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
    /// No request has left since a caller gave up waiting.
    stalled: bool,
}

/// A request with its sequence number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queued {
    number: u64,
    pub(super) export: EncodedRequest,
}

impl Queue {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
            arrived: BySignal::default(),
            space: Condvar::new(),
        }
    }

    /// Adds a request without waiting: if there is no space, the oldest are dropped.
    pub(super) fn push(&self, export: EncodedRequest) {
        let signal = export.signal();
        self.lock().push(export, self.capacity);
        self.arrived.of(signal).notify_one();
    }

    /// Waits until this request fits. Gives up once nothing has left for `patience`, and does not
    /// wait again until something has.
    pub(super) fn wait_for_space(&self, export: &EncodedRequest, patience: Duration) {
        let size = Count::of(export).bytes;
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
    pub(super) fn complete(&self, queued: Queued, answer: &ExportResponse) {
        let mut state = self.lock();
        let account = state.outcome.get_mut(queued.export.signal());
        let count = Count::of(&queued.export);
        match answer {
            ExportResponse::Accepted { rejected, message } => {
                let rejected = (*rejected).min(count.items);
                account.unsent -= count;
                account.sent += Count { items: count.items - rejected, ..count };
                account.partially_rejected += rejected;
                if !message.is_empty() {
                    account.last_error = Some(message.clone());
                }
            }
            ExportResponse::Rejected { reason } => {
                account.unsent -= count;
                account.rejected += count;
                account.last_error = Some(reason.clone());
            }
            ExportResponse::Retry { reason, .. } => {
                account.failed_attempts += 1;
                account.last_error = Some(reason.clone());
                state.waiting.get_mut(queued.export.signal()).push_front(queued);
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
    fn push(&mut self, export: EncodedRequest, capacity: u64) {
        let signal = export.signal();
        let size = Count::of(&export);
        if size.bytes > capacity {
            self.outcome.get_mut(signal).dropped += size;
            return;
        }
        self.outcome.get_mut(signal).unsent += size;
        let number = self.next;
        self.next += 1;
        self.waiting.get_mut(signal).push_back(Queued { number, export });
        while self.bytes() > capacity && self.drop_oldest() {}
    }

    /// Returns false if the queue is empty.
    fn drop_oldest(&mut self) -> bool {
        let fronts = self.waiting.iter().filter_map(|(_, waiting)| waiting.front());
        let Some(signal) = fronts.min_by_key(|queued| queued.number).map(|q| q.export.signal())
        else {
            return false;
        };
        let account = self.outcome.get_mut(signal);
        if let Some(oldest) = self.waiting.get_mut(signal).pop_front() {
            let size = Count::of(&oldest.export);
            account.unsent -= size;
            account.dropped += size;
        }
        true
    }

    fn bytes(&self) -> u64 {
        self.outcome.queued().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, EncodedRequest, ExportResponse, Queue, Queued, Signal};
    use proptest::prelude::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const CAPACITY: u64 = 100;
    const AT_ONCE: Duration = Duration::ZERO;

    fn export(signal: Signal, items: u64, bytes: usize) -> EncodedRequest {
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
        queue.push(export(Signal::Traces, 1, 40));
        queue.push(export(Signal::Metrics, 2, 40));
        queue.push(export(Signal::Metrics, 3, 40));
        queue.push(export(Signal::Logs, 4, 40));
        let outcome = queue.outcome();
        assert_eq!(outcome.traces.dropped, Count { requests: 1, items: 1, bytes: 40 });
        assert_eq!(outcome.metrics.dropped, Count { requests: 1, items: 2, bytes: 40 });
        assert_eq!(outcome.logs.dropped, Count::default());
        assert_eq!(queue.take(Signal::Metrics).map(|queued| queued.export.items()), Some(3));
    }

    #[test]
    fn request_in_flight_is_counted_and_not_dropped() {
        let queue = Queue::new(CAPACITY);
        queue.push(export(Signal::Traces, 1, 60));
        let sent = queue.take(Signal::Traces).unwrap();
        queue.push(export(Signal::Traces, 2, 60));
        assert_eq!(queue.take(Signal::Traces), None, "the newer one had to go");
        queue.complete(sent, &accepted());
        let account = queue.outcome().traces;
        assert_eq!((account.sent.items, account.dropped.items), (1, 2));
        assert_eq!(account.unsent, Count::default());
    }

    #[test]
    fn wait_for_space_ends_with_space_or_patience() {
        let queue = Queue::new(CAPACITY);
        queue.push(export(Signal::Traces, 1, 60));
        let next = export(Signal::Traces, 2, 60);
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
        Settle(Signal, ExportResponse),
    }

    fn step() -> impl Strategy<Value = Step> {
        let signal = || prop::sample::select(Signal::ALL.to_vec());
        let answer = prop_oneof![
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
            (signal(), answer).prop_map(|(s, a)| Step::Settle(s, a)),
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
                        queue.push(export(signal, items, bytes));
                    }
                    Step::Take(signal) => {
                        let flying = flying.get_mut(signal);
                        if flying.is_none() {
                            *flying = queue.take(signal);
                        }
                    }
                    Step::Settle(signal, answer) => {
                        if let Some(queued) = flying.get_mut(signal).take() {
                            if !matches!(answer, ExportResponse::Retry { .. }) {
                                prop_assert!(*done.of(signal) < Some(queued.number));
                                *done.get_mut(signal) = Some(queued.number);
                            }
                            queue.complete(queued, &answer);
                        }
                    }
                }
                let outcome = queue.outcome();
                prop_assert!(outcome.queued().bytes <= CAPACITY);
                let counted: u64 = outcome
                    .iter()
                    .map(|(_, account)| {
                        account.sent.items
                            + account.partially_rejected
                            + account.rejected.items
                            + account.dropped.items
                            + account.unsent.items
                    })
                    .sum();
                prop_assert_eq!(counted, pushed);
                let held: usize = queue
                    .lock()
                    .waiting
                    .iter()
                    .flat_map(|(_, waiting)| waiting)
                    .chain(flying.iter().filter_map(|(_, queued)| queued.as_ref()))
                    .map(|queued| queued.export.body().len())
                    .sum();
                prop_assert_eq!(held as u64, outcome.queued().bytes);
            }
        }
    }
}
