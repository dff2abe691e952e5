//! Spans that wait for their price, and the cost of GPU time that is divided among them.
//!
//! What waits is limited in bytes and time.

use std::sync::Arc;

use phasemeter_attribution::directory::{Directory, NamedGpus};
use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, HolderKeys, Limits, RejectReason, Release, SpanCost,
};
use phasemeter_meter::holder::Holder;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::encode::{DividedCost, SpanCostEvent};
use phasemeter_receiver::HeldSpan;

use super::intake::SeenHolder;
use super::meters::{Claim, KnownMeters};
use super::release::Outgoing;
use super::span_claims::{OpenClaim, OpenClaims};
use super::span_filter::{CandidateSpan, FilteredSpans, OwnedIdentity};
use super::span_releases::{Releases, WaitingSpan};
use super::span_summary::SpanSummary;

/// Prices spans.
#[derive(Debug)]
pub struct SpanCosts {
    attribution: Attribution<WaitingSpan>,
    gpus: Directory,
    unplaced: Unplaced,
    meters: KnownMeters,
    claims: OpenClaims,
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

impl SpanCosts {
    /// Without GPUs. Spans leave through `sender`, whose queue must hold them, and their costs, when they
    /// no longer wait. `instance`: the instance ID of what this meter sends.
    #[must_use]
    pub fn new(
        limits: Limits,
        unplaced: Unplaced,
        sender: RequestSender,
        instance: String,
    ) -> Self {
        Self {
            attribution: Attribution::new(limits),
            gpus: Directory::default(),
            unplaced,
            meters: KnownMeters::new(instance),
            claims: OpenClaims::new(limits),
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
            self.gpus.add_gpu(gpu.key(), gpu.host());
        }
    }

    /// A process uses a GPU, or has used it: spans may arrive late.
    pub fn add_process(&mut self, gpu: usize, pid: u32) {
        self.gpus.add_process(gpu, pid);
    }

    /// A point of a GPU at this instant names its holder, or none.
    pub fn see_holder(&mut self, SeenHolder { gpu, at, by, holder }: &SeenHolder) {
        self.gpus.see_holder(*gpu, (*at, *by), holder.as_ref());
    }

    /// Whether so many spans are on their way that no more must be taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outgoing.bytes() > Outgoing::MAX_BYTES
    }

    /// Costs of the meter with this instance ID pass here.
    pub fn see_meter(&mut self, instance: &str) {
        self.meters.see(instance);
    }

    /// Takes the spans of a request. Those that cannot be priced leave at once.
    pub fn take(&mut self, spans: FilteredSpans, now: Timestamp) {
        let FilteredSpans { chosen, others, too_large, exempt, .. } = spans;
        self.summary.exempt.merge(&exempt);
        for (key, parent) in others {
            self.attribution.note(key, parent);
        }
        if too_large > 0 {
            *self.summary.rejected.entry(RejectReason::TooLarge).or_default() += too_large;
        }
        let mut taking = Taking::default();
        for candidate in chosen {
            self.take_span(candidate, now, &mut taking);
        }
        self.outgoing.send(taking.leaving);
    }

    /// Takes a span. One with a price that is proved leaves as it is; of one whose price is not, it is removed.
    fn take_span(&mut self, candidate: CandidateSpan, now: Timestamp, taking: &mut Taking) {
        let CandidateSpan { held, span, key, claim, resource } = candidate;
        let leaving = &mut taking.leaving;
        let (held, claim) = match claim {
            None => (held, None),
            Some(Claim::Invalid) => (self.summary.without_price(held, &resource), None),
            Some(Claim::By(meter)) if self.meters.contains(&meter) => {
                if let Some((key, parent)) = key {
                    self.attribution.note(key, parent);
                }
                if let Some(held) = held {
                    self.summary.exempt.add(&meter);
                    leaving.push((held, Vec::new()));
                }
                return;
            }
            Some(Claim::By(meter)) => {
                (held, Some(OpenClaim { meter, resource: Arc::clone(&resource) }))
            }
        };
        let Some(span) = span else {
            if let Some((key, parent)) = key {
                self.attribution.note(key, parent);
            }
            return self.pass(held, claim, now, leaving);
        };
        // The spans of one resource follow each other.
        let known = taking.last.take().filter(|(last, _)| Arc::ptr_eq(last, &resource));
        let (_, named) = taking.last.insert(known.unwrap_or_else(|| {
            let named = self.gpus.named(&OwnedIdentity::as_ref(&resource));
            (resource, named)
        }));
        let found = self.gpus.gpus_of(named, &(span.from..span.to.unwrap_or(now)));
        let gpus = match self.unplaced {
            _ if !found.is_empty() => found,
            Unplaced::AllGpus => GpuSet::All,
            Unplaced::Unattributed => {
                self.attribution.note(span.key, span.parent);
                self.summary.unplaced += u64::from(held.is_some() && claim.is_none());
                return self.pass(held, claim, now, leaving);
            }
        };
        self.summary.of_unknown_sampling += u64::from(span.adjusted_count.is_none());
        let end = (span.key, span.to.unwrap_or(now));
        let span = ChosenSpan { gpus: gpus.clone(), ..span };
        let size = held.as_ref().map_or(0, HeldSpan::size) + gpus.size();
        let waiting = WaitingSpan { held, gpus, claim, end };
        let mut unpriced = Vec::new();
        let offered = self.attribution.offer(span, waiting, size, now, &mut |release| {
            if let Release::Unpriced(waiting) = release {
                unpriced.push(waiting);
            }
        });
        if let Err((reason, waiting)) = offered {
            *self.summary.rejected.entry(reason).or_default() += 1;
            unpriced.push(waiting);
        }
        for WaitingSpan { held, claim, .. } in unpriced {
            self.pass(held, claim, now, leaving);
        }
    }

    /// Lets a span leave that is not priced, once its claim is decided.
    fn pass(
        &mut self,
        held: Option<HeldSpan>,
        claim: Option<OpenClaim>,
        now: Timestamp,
        leaving: &mut Vec<(HeldSpan, Vec<u8>)>,
    ) {
        let passed = match (held, claim) {
            (Some(held), Some(claim)) => match self.claims.add(held, claim, now) {
                Ok(()) => None,
                Err((held, claim)) => self.summary.without_price(Some(held), &claim.resource),
            },
            (held, _) => held,
        };
        leaving.extend(passed.map(|held| (held, Vec::new())));
    }

    /// Sends the spans whose claims are decided now; all of them without a time.
    fn settle_claims(&mut self, now: Option<Timestamp>) {
        let decided = self.claims.decide(now, &self.meters).into_iter();
        let leaving = decided.filter_map(|(held, claim)| {
            let (held, _) = self.summary.decided(Some(held), Some(claim), &self.meters);
            Some((held?, Vec::new()))
        });
        self.outgoing.send(leaving.collect());
    }

    /// Adds what final time of a GPU cost a holder of it, or nobody, in time order.
    pub fn charge(&mut self, gpu: usize, holder: Option<&Holder>, slice: CostSlice) {
        self.charged += slice.cost;
        let holder = holder.map_or(HolderKeys::NOBODY, |holder| self.gpus.keys_of(holder));
        self.attribution.charge(gpu, holder, slice);
    }

    /// A GPU has no further time before this instant.
    pub fn finalize(&mut self, gpu: usize, until: Timestamp) {
        self.attribution.finalize(gpu, until);
    }

    /// Divides the time that is final, and sends the spans whose cost is. The cost of spans that left
    /// without is passed on, up to 1,024 at a time. `priced`: whether each GPU has a price.
    pub fn advance(
        &mut self,
        now: Timestamp,
        priced: &[bool],
        emit: &mut dyn FnMut(&[SpanCostEvent]),
    ) {
        self.settle_claims(Some(now));
        let Self { attribution, outgoing, summary, meters, .. } = self;
        let mut releases = Releases::new(priced, meters, outgoing, summary, emit);
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
        self.settle_claims(None);
        // The price of a GPU may have become known after its time had been charged.
        let cost = bill - self.charged;
        let Self { attribution, outgoing, summary, meters, .. } = self;
        attribution.charge_late(SpanCost { cost, ..SpanCost::default() });
        let mut releases = Releases::new(priced, meters, outgoing, summary, emit);
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

/// Spans that are being taken.
#[derive(Default)]
struct Taking {
    /// The GPUs of the last resource.
    last: Option<(Arc<OwnedIdentity>, NamedGpus)>,
    /// Those that leave at once.
    leaving: Vec<(HeldSpan, Vec<u8>)>,
}
