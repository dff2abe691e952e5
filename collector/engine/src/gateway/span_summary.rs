//! What became of spans.

use std::collections::HashMap;

use phasemeter_attribution::RejectReason;
use phasemeter_otlp::encode::DividedCost;
use phasemeter_receiver::HeldSpan;

use super::meters::KnownMeters;
use super::sender_counts::SenderCounts;
use super::span_claims::OpenClaim;
use super::span_filter::{OwnedIdentity, PRICE};

/// What became of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanSummary {
    /// Spans that left with their cost.
    pub priced: u64,
    /// Spans that left without, whose cost followed as an event.
    pub followed: u64,
    /// Spans that left without, and had no GPU time of their own.
    pub without_time: u64,
    /// Spans that are not priced, since they are Phasemeter's or a known meter has priced them, by sender or meter.
    pub exempt: SenderCounts,
    /// Spans that lost a price, since no known meter has stated it, by sender.
    pub unproved: SenderCounts,
    /// Spans that have no price, by reason.
    pub rejected: HashMap<RejectReason, u64>,
    /// Spans that have no price, since their resource names no GPU that is known.
    pub unplaced: u64,
    /// Spans of which it is not known how many were not sampled.
    pub of_unknown_sampling: u64,
    /// The bill.
    pub divided: DividedCost,
}

impl SpanSummary {
    /// A span that leaves here without the price that it arrived with, which is not proved.
    pub(super) fn without_price(
        &mut self,
        held: Option<HeldSpan>,
        resource: &OwnedIdentity,
    ) -> Option<HeldSpan> {
        let held = held?;
        self.unproved.add(resource.sender());
        Some(held.without_attributes(PRICE))
    }

    /// A span whose claim, if it has one, is decided now; and whether it keeps the price that it arrived with.
    pub(super) fn decided(
        &mut self,
        held: Option<HeldSpan>,
        claim: Option<OpenClaim>,
        meters: &KnownMeters,
    ) -> (Option<HeldSpan>, bool) {
        match claim {
            None => (held, false),
            Some(OpenClaim { meter, .. }) if meters.contains(&meter) => {
                if held.is_some() {
                    self.exempt.add(&meter);
                }
                (held, true)
            }
            Some(OpenClaim { resource, .. }) => (self.without_price(held, &resource), false),
        }
    }
}
