//! The sending queue: requests in memory, in order within a signal, bounded in bytes over all
//! signals. If it is full, the oldest request of any signal is dropped, so a backend that is down
//! loses its own old requests before another's new ones. Small requests may leave as one, and several at
//! once, those of one resource in order.
//!
//! With a storage, a request leaves once it is stored, and its bytes are then on disk only.
//!
//! Every request is counted here from its arrival to its outcome, under one lock, so that the
//! counts always add up. The lock is held only while moving a pointer.

mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use phasemeter_outbox::Reason;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::state::State;
use super::batch::{Batch, Body};
use super::config::Batching;
use super::outcome::{Count, Outcome, Receipt, RequestOutcome};
use super::resources::resources;
use super::response::ExportResponse;
use super::storage::Storage;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The Collector's `sending_queue`.
#[derive(Debug)]
pub(super) struct Queue {
    /// In encoded bytes in memory, including requests in flight.
    capacity: AtomicU64,
    storage: Option<Mutex<Storage>>,
    /// Whether it takes new requests.
    stores: bool,
    /// Notified when there is something to store.
    to_store: Notify,
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

impl Queue {
    /// What a storage has left is queued first.
    pub(super) fn new(capacity: u64, batching: Batching, storage: Option<Storage>) -> Self {
        let mut state = State::default();
        let left = storage.iter().flat_map(Storage::pending);
        left.for_each(|left| state.restore(left));
        let lost = storage.iter().flat_map(Storage::lost_before);
        lost.for_each(|(signal, requests, items, reason)| {
            // Their bytes are not known any more.
            let count = Count { requests, items, bytes: 0 };
            state.lost_before(signal, count, reason);
        });
        Self {
            capacity: capacity.into(),
            stores: storage.as_ref().is_some_and(Storage::stores),
            storage: storage.map(Mutex::new),
            to_store: Notify::new(),
            batching,
            started: Instant::now(),
            offset: OnceLock::new(),
            state: state.into(),
            arrived: BySignal::default(),
            space: Condvar::new(),
        }
    }

    /// Whether there is something on disk, or may be.
    pub(super) const fn has_storage(&self) -> bool {
        self.storage.is_some()
    }

    /// The capacity in encoded bytes in memory, including requests in flight.
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
        let pushed = self.lock().push(request, resources, self.capacity(), self.stores);
        if self.stores {
            self.to_store.notify_one();
        }
        self.arrived.of(signal).notify_one();
        pushed
    }

    /// Returns once there may be something to store.
    pub(super) async fn to_store(&self) {
        self.to_store.notified().await;
    }

    /// Stores what has arrived, some at a time, and notes on disk what was accepted. Blocks on the disk.
    pub(super) fn store(&self) {
        if self.store_some() {
            self.to_store.notify_one();
        }
    }

    /// Stores all that has arrived.
    pub(super) fn store_all(&self) {
        while self.store_some() {}
    }

    /// Returns whether there may be more that can be stored.
    fn store_some(&self) -> bool {
        let Some(storage) = &self.storage else { return false };
        let mut storage = lock(storage);
        let requests = if storage.is_paused() { Vec::new() } else { self.lock().unstored() };
        let encoded: Vec<_> = requests.iter().map(|(_, request)| request.clone()).collect();
        let Ok(locations) = storage.store(&encoded) else {
            let free = self.lock().refused(&requests);
            free.into_iter().for_each(|signal| self.arrived.of(signal).notify_one());
            return false;
        };
        storage.checkpoint(!requests.is_empty());
        let dropped = storage.take_dropped();
        let mut state = self.lock();
        for ((number, request), location) in requests.iter().zip(locations) {
            let is_waiting = state.stored(request.signal(), *number, location);
            if let Some(location) = location.filter(|_| !is_waiting) {
                storage.settle(request.signal(), location);
            }
        }
        for (signal, location, reason) in dropped {
            state.lose(signal, location, reason);
        }
        drop((state, storage));
        for (_, request) in &requests {
            self.arrived.of(request.signal()).notify_one();
        }
        !requests.is_empty()
    }

    /// Stores the rest, on a disk that may work again, and ends the use of the storage.
    pub(super) fn close(&self) {
        self.storage.iter().for_each(|storage| lock(storage).resume());
        self.store_all();
        self.storage.iter().for_each(|storage| lock(storage).close());
    }

    /// The encoded request that has the elements of all, in order. What can no longer be read is taken out and
    /// counted; `None` if that is all.
    pub(super) fn body(&self, taken: Batch) -> Option<(Batch, Bytes)> {
        let signal = taken.signal();
        let (mut bodies, mut parts) = (Vec::new(), Vec::new());
        for part in taken.into_parts() {
            let body = match &part.body {
                Body::Memory(bytes) | Body::Unstored(bytes) | Body::Refused(bytes) => {
                    Ok(bytes.clone())
                }
                Body::Stored(location) => match &self.storage {
                    Some(storage) => lock(storage).read(signal, *location),
                    None => Err(Reason::Unreadable),
                },
            };
            match body {
                Ok(body) => {
                    bodies.push(body);
                    parts.push(part);
                }
                Err(reason) => self.lock().give_up(&part, reason),
            }
        }
        let body = match bodies.as_slice() {
            [one] => one.clone(),
            several => {
                let mut body = BytesMut::new();
                several.iter().for_each(|part| body.extend_from_slice(part));
                body.freeze()
            }
        };
        Some((Batch::new(parts)?, body))
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
        let free = self.capacity().saturating_sub(state.memory);
        let nanos = self.started.elapsed().as_nanos().saturating_mul(free.into());
        let nanos = nanos.checked_div(state.pushed.into()).unwrap_or(u128::MAX);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until this request fits. Gives up once nothing has left for `patience`, and does not
    /// wait again until something has.
    pub(super) fn wait_for_space(&self, request: &EncodedRequest, patience: Duration) {
        let size = Count::of(request).bytes;
        let mut state = self.lock();
        while !state.stalled && size <= self.capacity() && state.memory + size > self.capacity() {
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
            taken.parts().for_each(|part| state.release(part));
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
        for part in taken.parts() {
            if let (Body::Stored(location), Some(storage)) = (&part.body, &self.storage) {
                lock(storage).settle(signal, *location);
            }
        }
        self.arrived.of(signal).notify_one();
        self.space.notify_all();
    }

    /// Divides requests that were rejected as one, so that each is judged alone.
    pub(super) fn divide(&self, mut taken: Batch) {
        taken.divide();
        self.put_back(taken);
    }

    /// Returns requests without a response to their positions.
    pub(super) fn put_back(&self, taken: Batch) {
        let mut state = self.lock();
        state.land(&taken);
        state.put_back(taken);
    }

    /// The outcome of all requests so far.
    pub(super) fn outcome(&self) -> Outcome {
        self.lock().outcome.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
