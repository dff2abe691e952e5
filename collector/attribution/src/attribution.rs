//! Spans that wait for their cost, and the open cost of all GPUs.
//!
//! An instant of a GPU is divided once its readings are final and spans have had their allowed
//! lateness, among the spans that are known by then. Time without a span stays open for spans that
//! arrive later, such as the parents of those that were charged.

use phasemeter_meter::units::Timestamp;

use crate::candidates::{ActiveSpans, Candidates};
use crate::cost::{CostSlice, SpanCost};
use crate::division::{Division, divide};
use crate::gpu_cost::GpuCost;
use crate::holder_keys::HolderKeys;
use crate::limits::Limits;
use crate::links::Links;
use crate::span::{ChosenSpan, GpuSet, RejectReason, SpanKey};
use crate::waiting::{Record, WaitingSpans};

/// What leaves.
#[derive(Clone, Debug, PartialEq)]
pub enum Release<T> {
    /// A span with its cost.
    Priced(T, SpanCost),
    /// A span whose cost is not final in time. It follows.
    Unpriced(T),
    /// The cost of a span that left without it.
    Cost(LeftSpan, SpanCost),
}

/// A span that left without its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftSpan {
    /// Its identity.
    pub key: SpanKey,
    /// Its end.
    pub to: Timestamp,
    /// The GPUs that it is charged for.
    pub gpus: GpuSet,
}

/// Divides the cost of GPUs among spans.
#[derive(Clone, Debug)]
pub struct Attribution<T> {
    limits: Limits,
    gpus: Vec<GpuCost>,
    spans: WaitingSpans<T>,
    links: Links,
    attributed: SpanCost,
    unsampled: SpanCost,
    unattributed: SpanCost,
}

impl<T> Attribution<T> {
    /// Without GPUs and spans.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            gpus: Vec::new(),
            spans: WaitingSpans::default(),
            links: Links::default(),
            attributed: SpanCost::default(),
            unsampled: SpanCost::default(),
            unattributed: SpanCost::default(),
        }
    }

    /// Adds a GPU, and returns its number.
    pub fn add_gpu(&mut self) -> usize {
        self.gpus.push(GpuCost::default());
        self.gpus.len() - 1
    }

    /// Adds what a holder pays for final time of a GPU. Slices of a GPU are in time order; those of one time follow
    /// each other, before the next [`Self::advance`].
    pub fn charge(&mut self, gpu: usize, holder: HolderKeys, slice: CostSlice) {
        if let Some(open) = self.gpus.get_mut(gpu)
            && slice.from < slice.to
        {
            open.push(holder, slice);
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

    /// Adds a span, which waits for its cost as `payload` of `size` bytes. If too many wait, it leaves at
    /// once: those that have waited will have their cost sooner.
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
        let (key, parent) = (span.key, span.parent);
        if let Err(reason) = self.check(&span, now) {
            self.note(key, parent);
            return Err((reason, payload));
        }
        self.links.insert(key, parent, true);
        let record = Record::new(span, now);
        if self.spans.bytes_with(size) > self.limits.max_bytes {
            self.spans.insert_left(key, record);
            emit(Release::Unpriced(payload));
        } else {
            self.spans.insert(key, record, payload, size);
            self.spans.enqueue(key);
        }
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
        if self.is_known(&span.key) {
            return Err((RejectReason::Duplicate, payload));
        }
        if self.spans.bytes_with(size) > self.limits.max_bytes {
            return Err((RejectReason::Full, payload));
        }
        let key = span.key;
        self.links.insert(key, span.parent, true);
        let span = ChosenSpan { to: None, weight: None, ..span };
        self.spans.insert(key, Record::new(span, now), payload, size);
        Ok(())
    }

    /// Ends a span that was begun. Time that has been divided remains its own.
    pub fn end(&mut self, key: SpanKey, to: Timestamp, now: Timestamp) {
        if let Some(record) = self.spans.get_mut(&key)
            && !record.has_ended
        {
            (record.has_ended, record.to, record.arrived) = (true, to, now);
            self.spans.enqueue(key);
        }
    }

    /// Whether this span has been priced, or waits for it.
    fn is_known(&self, key: &SpanKey) -> bool {
        self.spans.contains(key) || self.links.get(key).is_some_and(|link| link.is_priced)
    }

    fn check(&self, span: &ChosenSpan, now: Timestamp) -> Result<(), RejectReason> {
        let to = span.to.ok_or(RejectReason::NotEnded)?;
        if to <= span.from {
            return Err(RejectReason::NoDuration);
        }
        if self.is_known(&span.key) {
            return Err(RejectReason::Duplicate);
        }
        if to > now + self.limits.max_wait {
            return Err(RejectReason::InFuture);
        }
        if to <= now.saturating_sub(self.limits.history) {
            return Err(RejectReason::Late);
        }
        let mut gpus = span.gpus.among(self.gpus.len()).peekable();
        if gpus.peek().is_some()
            && !gpus.any(|gpu| self.gpus[gpu].is_open(span.gpus.holder(), span.from, to))
        {
            return Err(RejectReason::Late);
        }
        if self.spans.bytes_of_left() >= self.limits.max_bytes {
            return Err(RejectReason::Full);
        }
        Ok(())
    }

    /// Divides the time that is final, and releases the spans whose cost is.
    pub fn advance(&mut self, now: Timestamp, emit: &mut impl FnMut(Release<T>)) {
        self.divide_until(now.saturating_sub(self.limits.allowed_lateness));
        let oldest = now.saturating_sub(self.limits.history);
        for gpu in &mut self.gpus {
            self.unattributed += gpu.expire(oldest, self.limits.max_open_slices);
        }
        self.release_final(oldest, emit);
        let waited = now.saturating_sub(self.limits.max_wait);
        while let Some(payload) = self.spans.take_oldest(waited) {
            emit(Release::Unpriced(payload));
        }
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

    /// What spans have that were not sampled, which sampled ones represent.
    #[must_use]
    pub const fn unsampled(&self) -> SpanCost {
        self.unsampled
    }

    /// What no span has, and none will.
    #[must_use]
    pub const fn unattributed(&self) -> SpanCost {
        self.unattributed
    }

    /// What no span has yet.
    #[must_use]
    pub fn open(&self) -> SpanCost {
        self.gpus.iter().map(GpuCost::total).sum()
    }

    /// How many spans wait, or left without their cost.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.spans.len()
    }

    /// Bytes of the spans that wait.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.spans.bytes()
    }

    /// Divides the time before `limit` that is final.
    fn divide_until(&mut self, limit: Timestamp) {
        let until = |gpu: &GpuCost| gpu.until().min(limit).max(gpu.divided_until);
        let until: Vec<Timestamp> = self.gpus.iter().map(until).collect();
        let active = ActiveSpans::of(&self.spans, &self.gpus, &until);
        for (gpu, until) in until.into_iter().enumerate() {
            let divided = self.gpus[gpu].divided_until;
            let from = active.new_from(gpu).map_or(divided, |from| from.min(divided));
            for holder in self.gpus[gpu].holders(from, until) {
                self.divide_part(gpu, holder, until, &active.keys(gpu, &holder));
            }
            self.gpus[gpu].divided_until = until;
        }
        for record in self.spans.records_mut() {
            record.is_known = true;
        }
    }

    /// Divides what a holder pays for the time of a GPU up to an instant among these spans, and for earlier time among
    /// those of them that are new.
    fn divide_part(&mut self, gpu: usize, holder: HolderKeys, until: Timestamp, keys: &[SpanKey]) {
        let divided = self.gpus[gpu].divided_until;
        let candidates = Candidates::of(keys, &self.spans, &self.links, divided, until);
        let Some(Candidates { keys, spans, from }) = candidates else { return };
        let taken = self.gpus[gpu].of_mut(holder).take(from, until);
        let Division { costs, unsampled, open } = divide(&taken.slices, &spans);
        self.unsampled += unsampled;
        self.gpus[gpu].of_mut(holder).restore(open, taken.after);
        for (key, cost) in keys.iter().zip(costs) {
            self.attributed += cost;
            if let Some(record) = self.spans.get_mut(key) {
                record.cost += cost;
            }
        }
    }

    /// Releases the spans whose time is divided on all of their GPUs, and those that ended before
    /// `oldest`.
    fn release_final(&mut self, oldest: Timestamp, emit: &mut impl FnMut(Release<T>)) {
        let is_final = |it: &Record| {
            let mut gpus = it.gpus.among(self.gpus.len()).peekable();
            let is_divided =
                gpus.peek().is_some() && gpus.all(|gpu| self.gpus[gpu].divided_until >= it.to);
            is_divided || it.to <= oldest
        };
        let finals = self.spans.iter().filter(|(_, it)| is_final(it));
        let mut finals: Vec<_> = finals.map(|(key, it)| (it.arrived, *key)).collect();
        finals.sort_unstable();
        for (_, key) in finals {
            let Some((Record { to, gpus, cost, .. }, payload)) = self.spans.remove(&key) else {
                continue;
            };
            match payload {
                Some(payload) => emit(Release::Priced(payload, cost)),
                None => emit(Release::Cost(LeftSpan { key, to, gpus }, cost)),
            }
        }
    }
}
