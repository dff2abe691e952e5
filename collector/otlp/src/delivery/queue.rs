//! The sending queue: requests in memory, in order within a signal, bounded in bytes over all
//! signals. If it is full, the oldest request of any signal is dropped, so a backend that is down
//! loses its own old requests before another's new ones. Small requests may leave as one, and several at
//! once, those of one resource in order.
//!
//! Every request is counted here from its arrival to its outcome, under one lock, so that the
//! counts always add up. The lock is held only while moving a pointer.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::batch::{Batch, Queued};
use super::config::Batching;
use super::outcome::{Count, Outcome, Receipt, RequestOutcome};
use super::resources::resources;
use super::response::ExportResponse;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The number of requests among which one is looked for that may leave.
const SCANNED: usize = 256;

/// The Collector's `sending_queue`, in memory.
#[derive(Debug)]
pub(super) struct Queue {
    /// In encoded bytes, including requests in flight.
    capacity: AtomicU64,
    batching: Batching,
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
    /// The resources of requests in flight.
    in_flight: BySignal<HashSet<u64>>,
    /// The worker whose last attempt failed: the others wait for it.
    failing: BySignal<Option<usize>>,
    outcome: Outcome,
    /// The number of the next request.
    next: u64,
    /// Encoded bytes of all requests so far.
    pushed: u64,
    /// No request has left since a caller gave up waiting.
    stalled: bool,
}

impl Queue {
    pub(super) fn new(capacity: u64, batching: Batching) -> Self {
        Self {
            capacity: capacity.into(),
            batching,
            started: Instant::now(),
            offset: OnceLock::new(),
            state: Mutex::default(),
            arrived: BySignal::default(),
            space: Condvar::new(),
        }
    }

    /// The capacity in encoded bytes, including requests in flight.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Raises the capacity to this many bytes. It is never lowered: what waits already would be dropped.
    pub(super) fn grow(&self, capacity: u64) {
        self.capacity.fetch_max(capacity, Ordering::Relaxed);
    }

    /// Adds a request without waiting: if there is no space, the oldest are dropped. Returns its receipt,
    /// and what was dropped.
    pub(super) fn push(&self, request: EncodedRequest) -> (Receipt, BySignal<Count>) {
        let signal = request.signal();
        let orders = self.batching.consumers > 1;
        let resources = if orders { resources(request.body()) } else { Vec::new() };
        let pushed = self.lock().push(request, resources, self.capacity());
        self.arrived.of(signal).notify_one();
        pushed
    }

    /// Sets the delay of metrics and spans, once.
    pub(super) fn set_offset(&self, offset: Duration) {
        let _ = self.offset.set(offset);
    }

    /// When the oldest request of a signal is to be sent at the earliest, unless the client closes.
    pub(super) fn due(&self, signal: Signal) -> Option<Instant> {
        let delay = match signal {
            Signal::Traces | Signal::Metrics => self.offset.get().copied().unwrap_or_default(),
            Signal::Logs => Duration::ZERO,
        };
        self.lock().waiting.of(signal).front().map(|oldest| oldest.arrived + delay)
    }

    /// How long the queue can take more requests if nothing leaves it and they arrive as fast as so far.
    pub(super) fn time_until_full(&self) -> Duration {
        let state = self.lock();
        let free = self.capacity().saturating_sub(state.bytes());
        let nanos = self.started.elapsed().as_nanos().saturating_mul(free.into());
        let nanos = nanos.checked_div(state.pushed.into()).unwrap_or(u128::MAX);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until this request fits. Gives up once nothing has left for `patience`, and does not
    /// wait again until something has.
    pub(super) fn wait_for_space(&self, request: &EncodedRequest, patience: Duration) {
        let size = Count::of(request).bytes;
        let mut state = self.lock();
        while !state.stalled && size <= self.capacity() && state.bytes() + size > self.capacity() {
            let woken = self.space.wait_timeout(state, patience);
            let (next, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = next;
            state.stalled |= timeout.timed_out();
        }
    }

    /// Takes the oldest requests of a signal that may leave as one. They count as queued until they are
    /// completed, but can no longer be dropped.
    pub(super) fn take(&self, signal: Signal, worker: usize) -> Option<Batch> {
        let mut state = self.lock();
        let taken = state.take(signal, worker, self.batching)?;
        if !state.waiting.of(signal).is_empty() {
            self.arrived.of(signal).notify_one();
        }
        Some(taken)
    }

    /// Returns once a request may have arrived since the last call.
    pub(super) async fn arrived(&self, signal: Signal) {
        self.arrived.of(signal).notified().await;
    }

    /// Counts requests by their response. Those to be retried return to their positions.
    pub(super) fn complete(&self, taken: Batch, worker: usize, response: &ExportResponse) {
        let (signal, count) = (taken.signal(), taken.count());
        let mut state = self.lock();
        state.land(&taken);
        let failing = state.failing.get_mut(signal);
        match response {
            ExportResponse::Retry { .. } => *failing = failing.or(Some(worker)),
            _ if *failing == Some(worker) => *failing = None,
            _ => {}
        }
        if let Some(outcome) = RequestOutcome::of(response) {
            taken.set_outcome(outcome);
        }
        let counts = state.outcome.get_mut(signal);
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
                state.put_back(taken);
                return;
            }
        }
        state.stalled = false;
        drop(state);
        self.arrived.of(signal).notify_one();
        self.space.notify_all();
    }

    /// Divides requests that were rejected as one, so that each is judged alone.
    pub(super) fn divide(&self, mut taken: Batch) {
        let mut state = self.lock();
        state.land(&taken);
        taken.divide();
        state.put_back(taken);
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
    fn take(&mut self, signal: Signal, worker: usize, batching: Batching) -> Option<Batch> {
        if self.failing.of(signal).is_some_and(|failing| failing != worker) {
            return None;
        }
        let waiting = self.waiting.get_mut(signal);
        // Resources of which something older is in flight or stays.
        let mut held = self.in_flight.of(signal).clone();
        let (mut taken, mut index) = (Vec::<Queued>::new(), 0);
        let mut bytes = 0;
        while let Some(next) = waiting.get(index).filter(|_| index < SCANNED) {
            let is_held = next.resources.iter().any(|resource| held.contains(resource));
            let size = Count::of(&next.request).bytes;
            if taken.first().is_some_and(|first| {
                first.is_alone || next.is_alone || bytes + size > *batching.max_bytes.of(signal)
            }) {
                break;
            }
            // If the response to two rounds of a resource is lost, a backend that has stored both rejects the
            // first of them as too old once it arrives alone: metrics leave one round after another.
            if is_held || signal == Signal::Metrics {
                held.extend(&next.resources);
            }
            if is_held {
                index += 1;
            } else {
                bytes += size;
                taken.extend(waiting.remove(index));
            }
        }
        let taken = Batch::new(taken)?;
        self.in_flight.get_mut(signal).extend(taken.resources());
        Some(taken)
    }

    /// Requests are no longer in flight.
    fn land(&mut self, taken: &Batch) {
        let in_flight = self.in_flight.get_mut(taken.signal());
        taken.resources().for_each(|resource| {
            in_flight.remove(&resource);
        });
    }

    fn put_back(&mut self, taken: Batch) {
        let waiting = self.waiting.get_mut(taken.signal());
        for queued in taken.into_parts() {
            let position = waiting.partition_point(|other| other.number < queued.number);
            waiting.insert(position, queued);
        }
    }

    fn push(
        &mut self,
        request: EncodedRequest,
        resources: Vec<u64>,
        capacity: u64,
    ) -> (Receipt, BySignal<Count>) {
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
        let receipt_of_request = receipt.clone();
        let queued = Queued {
            number,
            request,
            resources,
            arrived,
            receipt: receipt_of_request,
            is_alone: false,
        };
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
mod tests;
