//! Quotes of pricing policies.
//!
//! Pricers are queried in order, until all GPUs of the model have a quote. If one fails, the next is
//! queried.

use std::num::NonZeroU32;
use std::sync::Arc;

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Price, PriceRange};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::{Evaluation, Policy, Usage};
use phasemeter_rules::quote::{Quote, QuoteRequest};

use super::{GenerationLease, PolicyManager};

/// The maximum number of quotes for the GPUs of one model at one instant: a pricer is queried again
/// while it quotes for some of them.
const MAX_QUOTES: usize = 16;

/// Queries pricers and keeps their statistics. The default has no pricers.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<PolicyManager>>,
    pricers: Vec<PricerStats>,
}

/// What pricers quote for one offer.
#[derive(Debug, Default)]
pub struct QuotedOffer {
    /// The price of all its GPUs; `None` if no pricer quotes that.
    pub price: Option<Price>,
    /// Whether a pricer failed.
    pub failed: bool,
    /// The fuel of the queries.
    pub fuel: u64,
}

/// The quotes of all pricers for the GPUs of one model at one instant.
#[derive(Debug, Default)]
pub struct QuotedPrices {
    /// The quotes, for the first GPUs each, in the order of the report.
    pub quotes: Vec<QuotedPrice>,
    /// Whether a pricer failed, and GPUs remain without a quote.
    pub failed: bool,
    /// The latest start of these quotes, if known.
    pub valid_from: Option<Timestamp>,
    /// When the first of these quotes expires, or another one becomes valid.
    pub expiry: Option<QuoteExpiry>,
}

/// A quoted price.
#[derive(Clone, Debug)]
pub struct QuotedPrice {
    /// The price.
    pub price: Price,
    /// The number of GPUs; `None` for all that remain.
    pub gpus: Option<NonZeroU32>,
}

/// The expiry of a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteExpiry {
    /// The first instant at which it is no longer valid.
    pub at: Timestamp,
    /// The name of the policy that quoted it.
    pub policy: String,
}

/// Statistics of one pricer.
#[derive(Debug)]
pub struct PricerStats {
    /// The name of the policy, in all generations.
    pub name: String,
    /// Its last error.
    pub error: Option<PolicyError>,
    /// Total usage; of memory, the maximum.
    pub usage: Usage,
}

impl Quotes {
    /// Quotes of these policies, if any.
    #[must_use]
    pub fn of(policies: Option<Arc<PolicyManager>>) -> Self {
        Self { policies, pricers: Vec::new() }
    }

    /// Quotes of the same policies, without statistics.
    #[cfg(feature = "full")]
    pub(crate) fn of_same_policies(&self) -> Self {
        Self::of(self.policies.clone())
    }

    /// Whether prices should wait, since pricers may still be being loaded.
    #[must_use]
    pub fn are_loading(&self) -> bool {
        self.policies.as_ref().is_some_and(|policies| policies.is_loading())
    }

    /// Whether there are active pricers.
    #[must_use]
    pub fn has_pricers(&self) -> bool {
        self.policies.as_ref().is_some_and(|policies| {
            let generation = policies.current().generation;
            generation.policies.iter().any(|policy| policy.kind() == Kind::Pricer)
        })
    }

    /// Queries the active pricers. Blocks for at most [`MAX_QUOTES`] deadlines more than there are
    /// pricers, and three times as long if the list price is an estimate.
    pub fn query(&mut self, request: &QuoteRequest) -> QuotedPrices {
        let mut all = QuotedPrices::default();
        let Some(policies) = self.policies.clone() else { return all };
        let current = policies.current();
        for policy in &current.generation.policies {
            let mut request = QuoteRequest { priced: 0, ..request.clone() };
            while let Some(result) = self.evaluate(&current, policy, &request).0 {
                let quote = match result {
                    Ok(Some(quote)) => quote,
                    Ok(None) => break,
                    Err(()) => {
                        all.failed = true;
                        break;
                    }
                };
                let name = &policy.manifest().name;
                if let Some(start) = quote.valid_from.filter(|start| *start > request.time) {
                    all.change_at(start, name);
                    break;
                }
                let estimate = self.estimate(&current, policy, &request, &quote);
                all.push(name, &request, &quote, estimate);
                match quote.gpus {
                    None => return QuotedPrices { failed: false, ..all },
                    Some(_) if all.quotes.len() == MAX_QUOTES => return all,
                    Some(gpus) => request.priced = request.priced.saturating_add(gpus.get()),
                }
            }
        }
        all
    }

    /// Queries the active pricers for an offer, each once. A quote for less than all of its GPUs is
    /// not a price of the offer. Blocks for at most one deadline per pricer.
    pub fn offer(&mut self, request: &QuoteRequest) -> QuotedOffer {
        let mut offer = QuotedOffer::default();
        let Some(policies) = self.policies.clone() else { return offer };
        let current = policies.current();
        for policy in &current.generation.policies {
            let (result, fuel) = self.evaluate(&current, policy, request);
            offer.fuel = offer.fuel.saturating_add(fuel);
            let quote = match result {
                Some(Ok(Some(quote))) => quote,
                Some(Err(())) => return QuotedOffer { failed: true, ..offer },
                Some(Ok(None)) | None => continue,
            };
            let is_valid = quote.valid_from.is_none_or(|start| start <= request.time);
            if is_valid && quote.gpus.is_none_or(|gpus| gpus >= request.gpus) {
                let price = price(&policy.manifest().name, request, &quote, None);
                return QuotedOffer { price: Some(price), ..offer };
            }
        }
        offer
    }

    /// The range of a quote that follows from a list price which is an estimate: what the policy quotes at the
    /// lowest and the highest of those prices. A discount on an estimate is an estimate; a contract is none.
    fn estimate(
        &mut self,
        current: &GenerationLease,
        policy: &Policy,
        request: &QuoteRequest,
        quote: &Quote,
    ) -> Option<PriceRange> {
        let listed = request.listed.as_ref()?;
        let range = listed.estimate?;
        let mut quoted_at = |rate: Rate| {
            let listed = Some(Price { rate, ..listed.clone() });
            let request = QuoteRequest { listed, ..request.clone() };
            match self.evaluate(current, policy, &request).0 {
                Some(Ok(Some(quote))) => quote.rate,
                _ => quote.rate,
            }
        };
        let [low, high] = [range.low, range.high].map(&mut quoted_at);
        let follows = if range.low == range.high {
            // One list price: another one shows whether the quote follows it.
            let half = Rate::new(listed.rate.nano_usd_per_hour() / 2)?;
            quoted_at(half) != quote.rate
        } else {
            low != quote.rate || high != quote.rate
        };
        let (low, high) = (low.min(quote.rate), high.max(quote.rate));
        follows.then_some(PriceRange { low, high, ..range })
    }

    /// The statistics of each queried pricer.
    #[must_use]
    pub fn pricers(&self) -> &[PricerStats] {
        &self.pricers
    }

    /// Evaluates a policy and counts its usage. Returns its quote, `None` if it is not a pricer, and the
    /// fuel it used.
    fn evaluate(
        &mut self,
        current: &GenerationLease,
        policy: &Policy,
        request: &QuoteRequest,
    ) -> (Option<Result<Option<Quote>, ()>>, u64) {
        let Some(evaluation) = policy.quote(request) else { return (None, 0) };
        let Evaluation { result, usage, log } = evaluation;
        current.record(policy, &usage, result.as_ref().err(), &log);
        let stats = self.stats_of(policy);
        stats.usage.fuel += usage.fuel;
        stats.usage.time += usage.time;
        stats.usage.memory = stats.usage.memory.max(usage.memory);
        (Some(result.map_err(|error| stats.error = Some(error))), usage.fuel)
    }

    fn stats_of(&mut self, policy: &Policy) -> &mut PricerStats {
        let name = &policy.manifest().name;
        let known = self.pricers.iter().position(|pricer| pricer.name == *name);
        let place = known.unwrap_or(self.pricers.len());
        if known.is_none() {
            let (name, usage) = (name.clone(), Usage::default());
            self.pricers.push(PricerStats { name, error: None, usage });
        }
        &mut self.pricers[place]
    }
}

impl QuotedPrices {
    /// Adds the quote of a policy for the request.
    fn push(
        &mut self,
        policy: &str,
        request: &QuoteRequest,
        quote: &Quote,
        estimate: Option<PriceRange>,
    ) {
        let price = price(policy, request, quote, estimate);
        self.quotes.push(QuotedPrice { price, gpus: quote.gpus });
        self.valid_from = self.valid_from.max(quote.valid_from);
        if let Some(end) = quote.valid_until {
            self.change_at(end, policy);
        }
    }

    /// Records that a quote of this policy expires or becomes valid.
    fn change_at(&mut self, at: Timestamp, policy: &str) {
        if self.expiry.as_ref().is_none_or(|expiry| at < expiry.at) {
            self.expiry = Some(QuoteExpiry { at, policy: policy.to_owned() });
        }
    }
}

/// The price that a policy quotes for a request.
fn price(
    policy: &str,
    request: &QuoteRequest,
    quote: &Quote,
    estimate: Option<PriceRange>,
) -> Price {
    let QuoteRequest { provider, region, instance_type, .. } = request.clone();
    Price {
        rate: quote.rate,
        plan: Some(quote.plan),
        provider,
        region,
        instance_type,
        source: format!("{}, quoted by {policy}", quote.source),
        as_of: Some(quote.as_of),
        estimate,
    }
}
