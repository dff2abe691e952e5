//! Spans that wait for their cost, and the open cost of all GPUs.
//!
//! An instant of a GPU is divided once its readings are final and spans have had their allowed
//! lateness, among the spans that are known by then. Time without a span stays open for spans that
//! arrive later, such as the parents of those that were charged. Must not depend on the form of a span.

use std::collections::{HashMap, VecDeque};

use phasemeter_meter::units::Timestamp;

use crate::cost::{CostSlice, SpanCost};
use crate::limits::Limits;
use crate::links::Links;
use crate::open_cost::OpenCost;
use crate::span::{ChosenSpan, GpuSet, RejectReason, SpanKey};
use crate::sweep::{Candidate, divide};

/// Spans nested deeper than this are treated as if those above had not been chosen.
const MAX_DEPTH: usize = 64;

/// What a waiting span takes, beside its payload.
const RECORD_BYTES: usize = 2 * size_of::<(SpanKey, Waiting<()>)>();

/// What leaves.
#[derive(Clone, Debug, PartialEq)]
pub enum Release<T> {
    /// A span with its cost.
    Priced(T, SpanCost),
    /// A span whose cost is not final in time. It follows.
    Unpriced(T),
    /// The cost of a span that left without it.
    Cost(ChosenSpan, SpanCost),
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    span: ChosenSpan,
    to: Timestamp,
    arrived: Timestamp,
    /// The span as it was received, with its size. `None` if it left.
    payload: Option<(T, usize)>,
    cost: SpanCost,
    /// Whether time before its arrival has been offered to it.
    is_known: bool,
}

/// Divides the cost of GPUs among spans.
#[derive(Clone, Debug)]
pub struct Attribution<T> {
    limits: Limits,
    gpus: Vec<OpenCost>,
    spans: HashMap<SpanKey, Waiting<T>>,
    /// Keys of spans whose payload waits, in order of arrival.
    payloads: VecDeque<SpanKey>,
    /// Bytes of payloads and records.
    bytes: usize,
    links: Links,
    attributed: SpanCost,
    unattributed: SpanCost,
}

impl<T> Attribution<T> {
    /// Without GPUs and spans.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            gpus: Vec::new(),
            spans: HashMap::new(),
            payloads: VecDeque::new(),
            bytes: 0,
            links: Links::default(),
            attributed: SpanCost::default(),
            unattributed: SpanCost::default(),
        }
    }

    /// Adds a GPU, and returns its number.
    pub fn add_gpu(&mut self) -> usize {
        self.gpus.push(OpenCost::default());
        self.gpus.len() - 1
    }

    /// Adds final time of a GPU. Slices of a GPU are in time order.
    pub fn charge(&mut self, gpu: usize, slice: CostSlice) {
        if let Some(open) = self.gpus.get_mut(gpu)
            && slice.from < slice.to
        {
            open.push(slice);
        }
    }

    /// All time of a GPU before this instant is final: none of it is charged from now on. For a GPU
    /// that has no more time, such as one that is gone, so that spans do not wait for it.
    pub fn finalize(&mut self, gpu: usize, until: Timestamp) {
        if let Some(open) = self.gpus.get_mut(gpu) {
            open.finalize(until);
        }
    }

    /// Adds cost that is known only after the time that it is for. No span has it.
    pub fn charge_late(&mut self, cost: SpanCost) {
        self.unattributed += cost;
    }

    /// Remembers the parent of a span that was not chosen, so that nesting is known across it.
    pub fn note(&mut self, key: SpanKey, parent: Option<[u8; 8]>) {
        self.links.insert(key, parent, false);
    }

    /// Adds a span, which waits for its cost as `payload` of `size` bytes. The oldest spans leave if
    /// memory does not suffice.
    ///
    /// # Errors
    /// Returns the span if it will not be priced.
    pub fn offer(
        &mut self,
        span: ChosenSpan,
        payload: T,
        size: usize,
        now: Timestamp,
        emit: &mut impl FnMut(Release<T>),
    ) -> Result<(), (RejectReason, T)> {
        let to = match self.check(&span, now) {
            Ok(to) => to,
            Err(reason) => {
                self.note(span.key, span.parent);
                return Err((reason, payload));
            }
        };
        let size = size + RECORD_BYTES;
        while self.bytes + size > self.limits.max_bytes && self.release_oldest(emit) {}
        if self.bytes + size > self.limits.max_bytes {
            self.note(span.key, span.parent);
            return Err((RejectReason::Full, payload));
        }
        self.bytes += size;
        let key = span.key;
        self.links.insert(key, span.parent, true);
        self.payloads.push_back(key);
        let payload = Some((payload, size - RECORD_BYTES));
        let cost = SpanCost::default();
        let waiting = Waiting { span, to, arrived: now, payload, cost, is_known: false };
        self.spans.insert(key, waiting);
        Ok(())
    }

    /// Adds a span that has not ended: it is active until [`Self::end`], and its payload waits from then
    /// on. It has no weight, which is divided by its duration.
    ///
    /// # Errors
    /// Returns the payload if the span is known, or too many wait.
    pub fn begin(
        &mut self,
        span: ChosenSpan,
        payload: T,
        size: usize,
        now: Timestamp,
    ) -> Result<(), (RejectReason, T)> {
        if self.links.get(&span.key).is_some_and(|link| link.is_priced) {
            return Err((RejectReason::Duplicate, payload));
        }
        let bytes = size + RECORD_BYTES;
        if self.bytes + bytes > self.limits.max_bytes {
            return Err((RejectReason::Full, payload));
        }
        self.bytes += bytes;
        let (key, to) = (span.key, Timestamp::LAST);
        self.links.insert(key, span.parent, true);
        let span = ChosenSpan { to: None, weight: None, ..span };
        let (cost, payload) = (SpanCost::default(), Some((payload, size)));
        let waiting = Waiting { span, to, arrived: now, payload, cost, is_known: false };
        self.spans.insert(key, waiting);
        Ok(())
    }

    /// Ends a span that was begun. Time that has been divided remains its own.
    pub fn end(&mut self, key: SpanKey, to: Timestamp, now: Timestamp) {
        if let Some(waiting) = self.spans.get_mut(&key)
            && waiting.span.to.is_none()
        {
            (waiting.span.to, waiting.to, waiting.arrived) = (Some(to), to, now);
            self.payloads.push_back(key);
        }
    }

    fn check(&self, span: &ChosenSpan, now: Timestamp) -> Result<Timestamp, RejectReason> {
        let to = span.to.ok_or(RejectReason::NotEnded)?;
        if to <= span.from {
            return Err(RejectReason::NoDuration);
        }
        if self.links.get(&span.key).is_some_and(|link| link.is_priced) {
            return Err(RejectReason::Duplicate);
        }
        if to > now + self.limits.max_wait {
            return Err(RejectReason::InFuture);
        }
        if to <= OpenCost::oldest(now, self.limits.history) {
            return Err(RejectReason::Late);
        }
        let mut gpus = self.gpus_of(&span.gpus).peekable();
        if gpus.peek().is_some() && !gpus.any(|gpu| self.gpus[gpu].is_open(span.from, to)) {
            return Err(RejectReason::Late);
        }
        Ok(to)
    }

    /// Divides the time that is final, and releases the spans whose cost is.
    pub fn advance(&mut self, now: Timestamp, emit: &mut impl FnMut(Release<T>)) {
        self.divide_until(now.saturating_sub(self.limits.allowed_lateness));
        let oldest = OpenCost::oldest(now, self.limits.history);
        for gpu in &mut self.gpus {
            self.unattributed += gpu.expire(oldest, self.limits.max_open_slices);
        }
        self.release_final(oldest, emit);
        let waited = now.saturating_sub(self.limits.max_wait);
        while let Some(key) = self.payloads.front()
            && self.spans.get(key).is_none_or(|waiting| waiting.arrived <= waited)
            && self.release_oldest(emit)
        {}
    }

    /// Ends the run: divides all time, and releases all spans.
    pub fn finish(&mut self, emit: &mut impl FnMut(Release<T>)) {
        self.divide_until(Timestamp::LAST);
        for gpu in &mut self.gpus {
            self.unattributed += gpu.expire(Timestamp::LAST, 0);
        }
        self.release_final(Timestamp::LAST, emit);
    }

    /// What spans have so far, released or not.
    #[must_use]
    pub const fn attributed(&self) -> SpanCost {
        self.attributed
    }

    /// What no span has, and none will.
    #[must_use]
    pub const fn unattributed(&self) -> SpanCost {
        self.unattributed
    }

    /// What no span has yet.
    #[must_use]
    pub fn open(&self) -> SpanCost {
        self.gpus.iter().map(OpenCost::total).sum()
    }

    /// How many spans wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.spans.len()
    }

    /// Bytes of what waits.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn gpus_of<'a>(&self, gpus: &'a GpuSet) -> impl Iterator<Item = usize> + use<'a, T> {
        let count = self.gpus.len();
        (0..count).filter(|&gpu| gpus.contains(gpu))
    }

    /// Divides the time before `limit` that is final.
    fn divide_until(&mut self, limit: Timestamp) {
        for gpu in 0..self.gpus.len() {
            let divided = self.gpus[gpu].divided_until;
            let until = self.gpus[gpu].until().min(limit).max(divided);
            self.divide_gpu(gpu, divided, until);
            self.gpus[gpu].divided_until = until;
        }
        for waiting in self.spans.values_mut() {
            waiting.is_known = true;
        }
    }

    /// Divides the time of a GPU from `divided` to `until` among all spans, and earlier time among those
    /// that are new.
    fn divide_gpu(&mut self, gpu: usize, divided: Timestamp, until: Timestamp) {
        let mut active: Vec<&Waiting<T>> = self
            .spans
            .values()
            .filter(|it| it.span.from < until && it.span.gpus.contains(gpu))
            .filter(|it| !it.is_known || it.to > divided)
            .collect();
        if active.is_empty() {
            return;
        }
        active.sort_unstable_by_key(|it| (it.span.from, it.span.key));
        let index: HashMap<SpanKey, usize> =
            active.iter().enumerate().map(|(index, it)| (it.span.key, index)).collect();
        let candidates: Vec<Candidate> = active
            .iter()
            .map(|it| Candidate {
                from: it.span.from,
                to: it.to,
                rate: rate(it),
                ancestors: self.ancestors(&it.span, &index),
            })
            .collect();
        let late = active.iter().filter(|it| !it.is_known).map(|it| it.span.from).min();
        let from = late.map_or(divided, |late| late.min(divided));
        let keys: Vec<SpanKey> = active.iter().map(|it| it.span.key).collect();
        let taken = self.gpus[gpu].take(from, until);
        let (costs, open) = divide(&taken.slices, &candidates);
        self.gpus[gpu].restore(open, taken.after);
        for (key, cost) in keys.iter().zip(costs) {
            self.attributed += cost;
            if let Some(waiting) = self.spans.get_mut(key) {
                waiting.cost += cost;
            }
        }
    }

    /// Indices of the spans that this one is nested in.
    fn ancestors(&self, span: &ChosenSpan, index: &HashMap<SpanKey, usize>) -> Vec<usize> {
        let own = index.get(&span.key);
        let mut found = Vec::new();
        let mut parent = span.parent;
        for _ in 0..MAX_DEPTH {
            let Some(key) = parent.map(|parent| span.key.sibling(parent)) else { break };
            if let Some(&ancestor) = index.get(&key)
                && Some(&ancestor) != own
                && !found.contains(&ancestor)
            {
                found.push(ancestor);
            }
            parent = self.links.get(&key).and_then(|link| link.parent);
        }
        found
    }

    /// Releases the spans whose time is divided on all of their GPUs, and those that ended before
    /// `oldest`.
    fn release_final(&mut self, oldest: Timestamp, emit: &mut impl FnMut(Release<T>)) {
        let is_final = |it: &Waiting<T>| {
            let mut gpus = self.gpus_of(&it.span.gpus).peekable();
            let is_divided =
                gpus.peek().is_some() && gpus.all(|gpu| self.gpus[gpu].divided_until >= it.to);
            is_divided || it.to <= oldest
        };
        let finals = self.spans.values().filter(|it| is_final(it));
        let mut finals: Vec<_> = finals.map(|it| (it.arrived, it.span.key)).collect();
        finals.sort_unstable();
        for (_, key) in finals {
            let Some(waiting) = self.spans.remove(&key) else { continue };
            self.bytes -= RECORD_BYTES;
            match waiting.payload {
                Some((payload, size)) => {
                    self.bytes -= size;
                    emit(Release::Priced(payload, waiting.cost));
                }
                None => emit(Release::Cost(waiting.span, waiting.cost)),
            }
        }
    }

    /// Releases the span that has waited longest without its cost. Returns whether there was one.
    fn release_oldest(&mut self, emit: &mut impl FnMut(Release<T>)) -> bool {
        let Some(key) = self.payloads.pop_front() else { return false };
        if let Some(waiting) = self.spans.get_mut(&key)
            && let Some((payload, size)) = waiting.payload.take()
        {
            self.bytes -= size;
            emit(Release::Unpriced(payload));
        }
        true
    }
}

/// Weight ÷ duration; `None` without a usable weight.
#[expect(clippy::cast_precision_loss, reason = "a weight is a double")]
fn rate<T>(waiting: &Waiting<T>) -> Option<f64> {
    let weight = waiting.span.weight.filter(|weight| weight.is_finite() && *weight >= 0.0)?;
    Some(weight / waiting.to.since(waiting.span.from).0 as f64)
}
