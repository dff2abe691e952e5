//! What the queue holds, and the counts of it, which change together.

use std::collections::{BTreeMap, HashSet, VecDeque};

use bytes::Bytes;
use phasemeter_outbox::Reason;
use tokio::time::Instant;

use super::super::batch::{Batch, Body, Queued};
use super::super::config::Batching;
use super::super::outcome::{Count, Outcome, Receipt, RequestOutcome};
use super::super::storage::{Left, Location};
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The number of requests among which one is looked for that may leave.
const SCANNED: usize = 256;

/// Requests that are stored at once, and the bytes after which there are no more.
const STORED_AT_ONCE: usize = 256;
const STORED_BYTES: u64 = 4 << 20;

/// Stands for all resources of a request that an earlier run has stored.
const EARLIER: u64 = 0;

/// The requests of all signals.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) waiting: BySignal<VecDeque<Queued>>,
    /// Those that are to be stored, in order.
    unstored: BTreeMap<u64, Signal>,
    /// Encoded bytes in memory, including requests in flight.
    pub(super) memory: u64,
    /// The resources of requests in flight.
    in_flight: BySignal<HashSet<u64>>,
    /// The worker whose last attempt failed: the others wait for it.
    pub(super) failing: BySignal<Option<usize>>,
    pub(super) outcome: Outcome,
    /// The number of the next request.
    next: u64,
    /// Encoded bytes of all requests so far.
    pub(super) pushed: u64,
    /// No request has left since a caller gave up waiting.
    pub(super) stalled: bool,
}

impl State {
    pub(super) fn take(
        &mut self,
        signal: Signal,
        worker: usize,
        batching: Batching,
    ) -> Option<Batch> {
        if self.failing.of(signal).is_some_and(|failing| failing != worker) {
            return None;
        }
        let waiting = self.waiting.get_mut(signal);
        // Resources of which something older is in flight or stays.
        let mut held = self.in_flight.of(signal).clone();
        if held.contains(&EARLIER) {
            return None;
        }
        let (mut taken, mut index) = (Vec::<Queued>::new(), 0);
        let mut bytes = 0;
        while let Some(next) = waiting.get(index).filter(|_| index < SCANNED) {
            if matches!(next.body, Body::Unstored(_)) {
                break;
            }
            let is_held = next.resources.iter().any(|resource| held.contains(resource));
            let size = next.count.bytes;
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
    pub(super) fn land(&mut self, taken: &Batch) {
        taken.parts().for_each(|part| self.land_part(part));
    }

    fn land_part(&mut self, part: &Queued) {
        let in_flight = self.in_flight.get_mut(part.signal);
        part.resources.iter().for_each(|resource| {
            in_flight.remove(resource);
        });
    }

    pub(super) fn put_back(&mut self, taken: Batch) {
        let waiting = self.waiting.get_mut(taken.signal());
        for queued in taken.into_parts() {
            if queued.body.to_store().is_some() {
                self.unstored.insert(queued.number, queued.signal);
            }
            let position = waiting.partition_point(|other| other.number < queued.number);
            waiting.insert(position, queued);
        }
    }

    /// Adds a request; `is_stored`: it is to be stored.
    pub(super) fn push(
        &mut self,
        request: EncodedRequest,
        resources: Vec<u64>,
        capacity: u64,
        is_stored: bool,
    ) -> (Receipt, BySignal<Count>) {
        let (receipt, mut dropped) = (Receipt::default(), BySignal::<Count>::default());
        let (signal, count) = (request.signal(), Count::of(&request));
        if count.bytes > capacity {
            self.outcome.get_mut(signal).dropped += count;
            *dropped.get_mut(signal) += count;
            receipt.set(RequestOutcome::Dropped);
            return (receipt, dropped);
        }
        self.pushed = self.pushed.saturating_add(count.bytes);
        let (bytes, note) = request.into_parts();
        let body = if is_stored { Body::Unstored(bytes) } else { Body::Memory(bytes) };
        let stored = (body, note);
        let number = self.add(signal, count, stored, resources, receipt.clone(), false);
        if is_stored {
            self.unstored.insert(number, signal);
        }
        while self.memory > capacity
            && let Some(oldest) = self.drop_oldest()
        {
            *dropped.get_mut(oldest.signal) += oldest.count;
        }
        (receipt, dropped)
    }

    /// Adds what an earlier run has stored: in front, since nothing was pushed.
    pub(super) fn restore(&mut self, left: Left) {
        let count = Count { requests: 1, items: left.items, bytes: left.bytes };
        self.outcome.get_mut(left.signal).kept += count;
        let stored = (Body::Stored(left.location), Bytes::new());
        self.add(left.signal, count, stored, vec![EARLIER], Receipt::default(), true);
    }

    fn add(
        &mut self,
        signal: Signal,
        count: Count,
        (body, note): (Body, Bytes),
        resources: Vec<u64>,
        receipt: Receipt,
        is_alone: bool,
    ) -> u64 {
        let (number, arrived) = (self.next, Instant::now());
        self.next += 1;
        self.memory += body.memory();
        self.outcome.get_mut(signal).unsent += count;
        let queued =
            Queued { number, signal, count, body, note, resources, arrived, receipt, is_alone };
        self.waiting.get_mut(signal).push_back(queued);
        number
    }

    /// Requests to be stored next, with their numbers.
    pub(super) fn unstored(&mut self) -> Vec<(u64, EncodedRequest)> {
        let (mut requests, mut bytes) = (Vec::new(), 0);
        while requests.len() < STORED_AT_ONCE
            && bytes < STORED_BYTES
            && let Some((number, signal)) = self.unstored.pop_first()
        {
            // If it is in flight, it returns here, too.
            let Some(queued) = self.find(signal, number) else { continue };
            if let Some(body) = queued.body.to_store() {
                bytes += queued.count.bytes;
                let request = EncodedRequest::new(signal, queued.count.items, body.clone());
                requests.push((number, request.with_note(queued.note.clone())));
            }
        }
        requests
    }

    /// The disk has refused these: until it works, all leave from memory. Returns the signals of those that could not
    /// leave before.
    pub(super) fn refused(&mut self, requests: &[(u64, EncodedRequest)]) -> HashSet<Signal> {
        let mut free = HashSet::new();
        let requests = requests.iter().map(|(number, request)| (*number, request.signal()));
        self.unstored.extend(requests);
        // Before those that have arrived since the last time are those that were refused then.
        let mut newer = u64::MAX;
        while let Some((&number, &signal)) = self.unstored.range(..newer).next_back() {
            match self.find(signal, number).map(|queued| &mut queued.body) {
                Some(Body::Refused(_)) => break,
                Some(body) => {
                    if let Body::Unstored(bytes) = body {
                        *body = Body::Refused(std::mem::take(bytes));
                        free.insert(signal);
                    }
                }
                None => {}
            }
            newer = number;
        }
        free
    }

    /// A request is stored, or else stays in memory. Returns false if it no longer waits.
    pub(super) fn stored(
        &mut self,
        signal: Signal,
        number: u64,
        location: Option<Location>,
    ) -> bool {
        let Some(queued) = self.find(signal, number) else { return false };
        let (count, memory) = (queued.count, queued.body.memory());
        match location {
            Some(location) => {
                queued.body = Body::Stored(location);
                queued.note = Bytes::new();
                queued.receipt.set_stored();
                self.memory -= memory;
                self.outcome.get_mut(signal).kept += count;
            }
            None => {
                if let Body::Unstored(bytes) | Body::Refused(bytes) = &mut queued.body {
                    queued.body = Body::Memory(std::mem::take(bytes));
                }
            }
        }
        true
    }

    fn find(&mut self, signal: Signal, number: u64) -> Option<&mut Queued> {
        let waiting = self.waiting.get_mut(signal);
        let position = waiting.partition_point(|other| other.number < number);
        waiting.get_mut(position).filter(|queued| queued.number == number)
    }

    /// A stored request was dropped from the disk. One in flight may still arrive.
    pub(super) fn lose(&mut self, signal: Signal, location: Location, reason: Reason) {
        let waiting = self.waiting.get_mut(signal);
        let is_it = |queued: &Queued| queued.body == Body::Stored(location);
        let lost = waiting.iter().position(is_it).and_then(|index| waiting.remove(index));
        lost.iter().for_each(|queued| self.count_lost(queued, reason));
    }

    /// A request in flight cannot be read.
    pub(super) fn give_up(&mut self, part: &Queued, reason: Reason) {
        self.land_part(part);
        self.count_lost(part, reason);
    }

    /// A request has an outcome: it takes no more space.
    pub(super) fn release(&mut self, queued: &Queued) {
        self.memory = self.memory.saturating_sub(queued.body.memory());
        if matches!(queued.body, Body::Stored(_)) {
            self.outcome.get_mut(queued.signal).kept -= queued.count;
        }
    }

    /// Drops the oldest request in memory; `None` if there is none.
    fn drop_oldest(&mut self) -> Option<Queued> {
        let in_memory = |queued: &&Queued| queued.body.memory() > 0;
        let oldest = self.waiting.iter().filter_map(|(_, waiting)| waiting.iter().find(in_memory));
        let (number, signal) = oldest.map(|queued| (queued.number, queued.signal)).min()?;
        let waiting = self.waiting.get_mut(signal);
        let position = waiting.partition_point(|other| other.number < number);
        let queued = waiting.remove(position)?;
        self.count_lost(&queued, Reason::Full);
        Some(queued)
    }

    /// Requests of an earlier run were lost before they waited here.
    pub(super) fn lost_before(&mut self, signal: Signal, count: Count, reason: Reason) {
        *self.losses(signal, reason) += count;
    }

    fn losses(&mut self, signal: Signal, reason: Reason) -> &mut Count {
        let counts = self.outcome.get_mut(signal);
        match reason {
            Reason::Full => &mut counts.dropped,
            Reason::Expired => &mut counts.expired,
            Reason::Unreadable => &mut counts.unreadable,
        }
    }

    fn count_lost(&mut self, queued: &Queued, reason: Reason) {
        self.release(queued);
        self.outcome.get_mut(queued.signal).unsent -= queued.count;
        *self.losses(queued.signal, reason) += queued.count;
        queued.receipt.set(RequestOutcome::Dropped);
    }
}
