//! Spans that wait for their cost, and those that left without it.
//!
//! Both are limited in bytes.

use std::collections::{HashMap, VecDeque};

use phasemeter_meter::units::Timestamp;

use crate::adjusted_count::AdjustedCount;
use crate::cost::SpanCost;
use crate::span::{ChosenSpan, GpuSet, SpanKey};

/// The most memory that a record takes: a hash table is up to half empty.
const RECORD_BYTES: usize = 2 * size_of::<(SpanKey, Record)>();

/// What is known of a span, beside its payload.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) from: Timestamp,
    /// Its end; the last instant of all if it has not ended.
    pub(crate) to: Timestamp,
    pub(crate) has_ended: bool,
    /// Weight ÷ duration; not a number if it takes the mean.
    rate: f64,
    /// The number of spans that it represents.
    pub(crate) count: AdjustedCount,
    pub(crate) gpus: GpuSet,
    pub(crate) arrived: Timestamp,
    pub(crate) cost: SpanCost,
    /// Whether time before its arrival has been offered to it.
    pub(crate) is_known: bool,
}

impl Record {
    #[expect(clippy::cast_precision_loss, reason = "a weight is a double")]
    pub(crate) fn new(span: ChosenSpan, arrived: Timestamp) -> Self {
        let ChosenSpan { parent, from, to, weight, adjusted_count, gpus, .. } = span;
        let count = adjusted_count.unwrap_or(AdjustedCount::ONE);
        let (end, has_ended) = (to.unwrap_or(Timestamp::LAST), to.is_some());
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        let rate = weight.map_or(f64::NAN, |weight| weight / end.since(from).0 as f64);
        let cost = SpanCost::default();
        let is_known = false;
        Self { parent, from, to: end, has_ended, rate, count, gpus, arrived, cost, is_known }
    }

    /// Whether a GPU whose time is divided up to an instant has time of it before another: time that is not divided,
    /// or any, if it is new.
    pub(crate) fn is_active(&self, divided: Timestamp, until: Timestamp) -> bool {
        self.from < until && (!self.is_known || self.to > divided)
    }

    /// Weight ÷ duration; `None` without a usable weight.
    pub(crate) fn rate(&self) -> Option<f64> {
        Some(self.rate).filter(|rate| !rate.is_nan())
    }
}

/// The spans, by key.
#[derive(Clone, Debug)]
pub(crate) struct WaitingSpans<T> {
    records: HashMap<SpanKey, Record>,
    /// The spans as they were received, of those that have not left.
    payloads: HashMap<SpanKey, Payload<T>>,
    /// Keys of spans that wait, in order of arrival.
    order: VecDeque<SpanKey>,
    /// Bytes of the spans that wait.
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Payload<T> {
    payload: T,
    bytes: usize,
}

impl<T> Default for WaitingSpans<T> {
    fn default() -> Self {
        Self { records: HashMap::new(), payloads: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }
}

impl<T> WaitingSpans<T> {
    /// The most memory that a span takes beside its payload.
    const SPAN_BYTES: usize = RECORD_BYTES
        + 2 * size_of::<(SpanKey, Payload<T>)>()
        // In order of arrival.
        + 2 * size_of::<SpanKey>();

    /// How many there are, whether they left or not.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of those that wait.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of those that left without their cost.
    pub(crate) fn bytes_of_left(&self) -> usize {
        (self.records.len() - self.payloads.len()) * RECORD_BYTES
    }

    /// Bytes of those that wait with one more whose payload has this size.
    pub(crate) const fn bytes_with(&self, size: usize) -> usize {
        self.bytes.saturating_add(size).saturating_add(Self::SPAN_BYTES)
    }

    pub(crate) fn contains(&self, key: &SpanKey) -> bool {
        self.records.contains_key(key)
    }

    pub(crate) fn get(&self, key: &SpanKey) -> Option<&Record> {
        self.records.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &SpanKey) -> Option<&mut Record> {
        self.records.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SpanKey, &Record)> {
        self.records.iter()
    }

    pub(crate) fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.values_mut()
    }

    /// Adds a span with its payload, which is not yet in order of arrival.
    pub(crate) fn insert(&mut self, key: SpanKey, record: Record, payload: T, size: usize) {
        let bytes = size.saturating_add(Self::SPAN_BYTES);
        self.bytes = self.bytes.saturating_add(bytes);
        self.records.insert(key, record);
        self.payloads.insert(key, Payload { payload, bytes });
    }

    /// Adds a span that left.
    pub(crate) fn insert_left(&mut self, key: SpanKey, record: Record) {
        self.records.insert(key, record);
    }

    /// The span has arrived as a whole: it leaves in order of arrival.
    pub(crate) fn enqueue(&mut self, key: SpanKey) {
        self.order.push_back(key);
    }

    /// Removes a span. Returns its payload, too, unless it left.
    pub(crate) fn remove(&mut self, key: &SpanKey) -> Option<(Record, Option<T>)> {
        let record = self.records.remove(key)?;
        Some((record, self.take_payload(key)))
    }

    /// The payload of the span that has waited longest, if it arrived at `limit` or before.
    pub(crate) fn take_oldest(&mut self, limit: Timestamp) -> Option<T> {
        while let Some(key) = self.order.front().copied() {
            if self.payloads.contains_key(&key)
                && self.records.get(&key).is_some_and(|record| record.arrived > limit)
            {
                return None;
            }
            self.order.pop_front();
            if let Some(payload) = self.take_payload(&key) {
                return Some(payload);
            }
        }
        None
    }

    fn take_payload(&mut self, key: &SpanKey) -> Option<T> {
        let Payload { payload, bytes } = self.payloads.remove(key)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(payload)
    }
}
