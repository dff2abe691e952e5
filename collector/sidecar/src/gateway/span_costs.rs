//! Spans that wait for their price, and the cost of GPU time that is divided among them.
//!
//! What waits is limited in bytes and time. Must not depend on how spans and readings arrive.

use std::collections::HashMap;
use std::sync::Arc;

use phasemeter_attribution::directory::{Directory, NamedGpus, Pod};
use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, LeftSpan, Limits, RejectReason, Release, SpanCost,
    SpanKey,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::encode::{DividedCost, SpanCostEvent};
use phasemeter_otlp::receiver::HeldSpan;

use super::release::Outgoing;
use super::span_filter::{CandidateSpan, OwnedIdentity, ReceivedSpans};
use crate::pipeline::priced_time;

/// The attribute of a GPU with its host.
const HOST: &str = "host.name";

/// Maximum number of costs that are passed on at once.
const MAX_EVENTS: usize = 1_024;

/// Bytes of spans that are sent at once.
const LEAVING_BYTES: usize = 4 << 20;

/// Prices spans.
#[derive(Debug)]
pub struct SpanCosts {
    attribution: Attribution<WaitingSpan>,
    gpus: Directory,
    unplaced: Unplaced,
    outgoing: Outgoing,
    /// What GPUs cost, as far as it is known here.
    charged: NanoUsd,
    summary: SpanSummary,
}

/// What becomes of spans whose resource names no GPU that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// They have no cost.
    Unattributed,
    /// They are charged for all GPUs: those of the command that sends them.
    AllGpus,
}

/// What became of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanSummary {
    /// Spans that left with their cost.
    pub priced: u64,
    /// Spans that left without, whose cost followed as an event.
    pub followed: u64,
    /// Spans that left without, and had no GPU time of their own.
    pub without_time: u64,
    /// Spans that arrived with a price.
    pub priced_before: u64,
    /// Spans that have no price, by reason.
    pub rejected: HashMap<RejectReason, u64>,
    /// Spans that have no price, since their resource names no GPU that is known.
    pub unplaced: u64,
    /// Spans of which it is not known how many were not sampled.
    pub of_unknown_sampling: u64,
    /// The bill.
    pub divided: DividedCost,
}

#[derive(Clone, Debug)]
struct WaitingSpan {
    leaves: Leaves,
    gpus: GpuSet,
}

/// How a span leaves.
#[derive(Clone, Debug)]
enum Leaves {
    /// With its cost.
    Held(HeldSpan),
    /// By another gateway. Only its cost leaves here.
    Elsewhere { key: SpanKey, to: Timestamp },
}

impl Leaves {
    fn held(self) -> Option<HeldSpan> {
        match self {
            Self::Held(held) => Some(held),
            Self::Elsewhere { .. } => None,
        }
    }
}

impl SpanCosts {
    /// Without GPUs. Spans leave through `sender`, whose queue must hold them, and their costs, when they
    /// no longer wait.
    #[must_use]
    pub fn new(limits: Limits, unplaced: Unplaced, sender: RequestSender) -> Self {
        Self {
            attribution: Attribution::new(limits),
            gpus: Directory::default(),
            unplaced,
            outgoing: Outgoing::new(sender),
            charged: NanoUsd::ZERO,
            summary: SpanSummary::default(),
        }
    }

    /// What carries spans, and their costs behind them.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        self.outgoing.clone()
    }

    /// Number of GPUs.
    #[must_use]
    pub const fn gpus(&self) -> usize {
        self.gpus.gpus()
    }

    /// Adds the GPUs that are new among these. Spans are charged for them by their index.
    pub fn add_gpus(&mut self, gpus: &[GpuIdentity]) {
        for gpu in gpus.iter().skip(self.gpus.gpus()) {
            self.attribution.add_gpu();
            let host = gpu.attributes.iter().find(|(key, _)| *key == HOST);
            self.gpus.add_gpu(gpu.key(), host.map(|(_, host)| host.as_str()));
        }
    }

    /// A process uses a GPU, or has used it: spans may arrive late.
    pub fn add_process(&mut self, gpu: usize, pid: u32) {
        self.gpus.add_process(gpu, pid);
    }

    /// A point of a GPU at this instant names its pod, or none.
    pub fn see_pod(&mut self, gpu: usize, at: Timestamp, pod: Option<&Pod>) {
        self.gpus.see_pod(gpu, at, pod);
    }

    /// Whether so many spans are on their way that no more must be taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outgoing.bytes() > Outgoing::MAX_BYTES
    }

    /// Takes the spans of a request. Those that cannot be priced leave at once.
    pub fn take(&mut self, spans: ReceivedSpans, now: Timestamp) {
        let ReceivedSpans { chosen, others, too_large, priced_before, .. } = spans;
        self.summary.priced_before += priced_before;
        for (key, parent) in others {
            self.attribution.note(key, parent);
        }
        if too_large > 0 {
            *self.summary.rejected.entry(RejectReason::TooLarge).or_default() += too_large;
        }
        let mut leaving = Vec::new();
        let mut last: Option<(Arc<OwnedIdentity>, NamedGpus)> = None;
        for CandidateSpan { held, span, resource } in chosen {
            // The spans of one resource follow each other.
            let known = last.take().filter(|(last, _)| Arc::ptr_eq(last, &resource));
            let (_, named) = last.insert(known.unwrap_or_else(|| {
                let named = self.gpus.named(&OwnedIdentity::as_ref(&resource));
                (resource, named)
            }));
            let found = self.gpus.gpus_of(named, &(span.from..span.to.unwrap_or(now)));
            let gpus = match self.unplaced {
                _ if !found.is_empty() => GpuSet::Listed(found),
                Unplaced::AllGpus => GpuSet::All,
                Unplaced::Unattributed => {
                    self.attribution.note(span.key, span.parent);
                    self.summary.unplaced += u64::from(held.is_some());
                    leaving.extend(held.map(|held| (held, Vec::new())));
                    continue;
                }
            };
            self.summary.of_unknown_sampling += u64::from(span.adjusted_count.is_none());
            let span = ChosenSpan { gpus: gpus.clone(), ..span };
            let size = held.as_ref().map_or(0, HeldSpan::size) + gpus.size();
            let elsewhere = Leaves::Elsewhere { key: span.key, to: span.to.unwrap_or(now) };
            let waiting = WaitingSpan { leaves: held.map_or(elsewhere, Leaves::Held), gpus };
            let mut unpriced = Vec::new();
            let offered = self.attribution.offer(span, waiting, size, now, &mut |release| {
                if let Release::Unpriced(waiting) = release {
                    unpriced.extend(waiting.leaves.held());
                }
            });
            if let Err((reason, waiting)) = offered {
                *self.summary.rejected.entry(reason).or_default() += 1;
                unpriced.extend(waiting.leaves.held());
            }
            leaving.extend(unpriced.into_iter().map(|held| (held, Vec::new())));
        }
        self.outgoing.send(leaving);
    }

    /// Adds what final time of a GPU cost, in time order.
    pub fn charge(&mut self, gpu: usize, slice: CostSlice) {
        self.charged += slice.cost;
        self.attribution.charge(gpu, slice);
    }

    /// A GPU has no further time before this instant.
    pub fn finalize(&mut self, gpu: usize, until: Timestamp) {
        self.attribution.finalize(gpu, until);
    }

    /// Divides the time that is final, and sends the spans whose cost is. The cost of spans that left
    /// without is passed on, up to [`MAX_EVENTS`] at a time. `priced`: whether each GPU has a price.
    pub fn advance(
        &mut self,
        now: Timestamp,
        priced: &[bool],
        emit: &mut dyn FnMut(&[SpanCostEvent]),
    ) {
        let Self { attribution, outgoing, summary, .. } = self;
        let mut releases = Releases::new(priced, outgoing, summary, emit);
        attribution.advance(now, &mut |release| releases.add(release));
        releases.flush();
    }

    /// Sends all spans at the end, when all GPUs together have cost `bill`.
    pub fn finish(
        &mut self,
        bill: NanoUsd,
        priced: &[bool],
        emit: &mut dyn FnMut(&[SpanCostEvent]),
    ) {
        // The price of a GPU may have become known after its time had been charged.
        let cost = bill - self.charged;
        let Self { attribution, outgoing, summary, .. } = self;
        attribution.charge_late(SpanCost { cost, ..SpanCost::default() });
        let mut releases = Releases::new(priced, outgoing, summary, emit);
        attribution.finish(&mut |release| releases.add(release));
        releases.flush();
    }

    /// What became of spans so far.
    #[must_use]
    pub fn summary(&self) -> SpanSummary {
        SpanSummary { divided: self.divided(), ..self.summary.clone() }
    }

    /// How the cost of GPU time is divided so far.
    #[must_use]
    pub const fn divided(&self) -> DividedCost {
        DividedCost {
            spans: self.attribution.attributed().cost,
            unsampled: self.attribution.unsampled().cost,
            unattributed: self.attribution.unattributed().cost,
        }
    }
}

/// What leaves, in parts, so that little of it is in memory twice.
struct Releases<'a> {
    priced: &'a [bool],
    are_all_priced: bool,
    outgoing: &'a Outgoing,
    summary: &'a mut SpanSummary,
    emit: &'a mut dyn FnMut(&[SpanCostEvent]),
    leaving: Vec<(HeldSpan, Vec<u8>)>,
    /// Bytes of `leaving`.
    bytes: usize,
    events: Vec<SpanCostEvent>,
}

impl<'a> Releases<'a> {
    fn new(
        priced: &'a [bool],
        outgoing: &'a Outgoing,
        summary: &'a mut SpanSummary,
        emit: &'a mut dyn FnMut(&[SpanCostEvent]),
    ) -> Self {
        let (leaving, events) = (Vec::new(), Vec::new());
        let are_all_priced = priced.iter().all(|is_priced| *is_priced);
        Self { priced, are_all_priced, outgoing, summary, emit, leaving, bytes: 0, events }
    }

    fn add(&mut self, release: Release<WaitingSpan>) {
        match release {
            Release::Priced(WaitingSpan { leaves: Leaves::Held(held), gpus }, cost) => {
                self.summary.priced += 1;
                let fields = priced_time(&cost, self.is_priced(&gpus)).fields();
                self.leave(held, fields);
            }
            Release::Priced(WaitingSpan { leaves: Leaves::Elsewhere { key, to }, gpus }, cost) => {
                self.follow(key, to, &gpus, &cost);
            }
            Release::Unpriced(waiting) => {
                if let Some(held) = waiting.leaves.held() {
                    self.leave(held, Vec::new());
                }
            }
            Release::Cost(LeftSpan { key, to, gpus }, cost) => self.follow(key, to, &gpus, &cost),
        }
    }

    /// The cost of a span that leaves without it, if it has any.
    fn follow(&mut self, key: SpanKey, to: Timestamp, gpus: &GpuSet, cost: &SpanCost) {
        if cost.time == Nanos::ZERO {
            self.summary.without_time += 1;
            return;
        }
        self.summary.followed += 1;
        let time = priced_time(cost, self.is_priced(gpus));
        self.events.push(SpanCostEvent { trace: key.trace, span: key.span, at: to, time });
        if self.events.len() >= MAX_EVENTS {
            self.flush_events();
        }
    }

    fn is_priced(&self, gpus: &GpuSet) -> bool {
        match gpus {
            GpuSet::All => self.are_all_priced,
            GpuSet::Listed(gpus) => {
                gpus.iter().all(|gpu| self.priced.get(*gpu).is_none_or(|is_priced| *is_priced))
            }
        }
    }

    fn leave(&mut self, span: HeldSpan, fields: Vec<u8>) {
        self.bytes += span.size() + fields.len();
        self.leaving.push((span, fields));
        if self.bytes >= LEAVING_BYTES {
            self.flush_spans();
        }
    }

    fn flush(mut self) {
        self.flush_spans();
        self.flush_events();
    }

    fn flush_spans(&mut self) {
        self.bytes = 0;
        self.outgoing.send(std::mem::take(&mut self.leaving));
    }

    fn flush_events(&mut self) {
        if !self.events.is_empty() {
            (self.emit)(&self.events);
            self.events.clear();
        }
    }
}
