//! Quotes of pricing policies.
//!
//! Pricers are queried in order, until all GPUs of the model have a quote. If one fails, the next is
//! queried. Must not depend on other sources of prices or on how long a quote is used.

use std::num::NonZeroU32;
use std::sync::Arc;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::{Quote, QuoteRequest};

use super::PolicyManager;

/// The maximum number of quotes for the GPUs of one model at one instant: a pricer is queried again
/// while it quotes for some of them.
const MAX_QUOTES: usize = 16;

/// Queries pricers and keeps their statistics. The default has no pricers.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<PolicyManager>>,
    pricers: Vec<PricerStats>,
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
    /// pricers.
    pub fn query(&mut self, request: &QuoteRequest) -> QuotedPrices {
        let mut all = QuotedPrices::default();
        let Some(policies) = self.policies.clone() else { return all };
        let current = policies.current();
        for policy in &current.generation.policies {
            let mut request = QuoteRequest { priced: 0, ..request.clone() };
            while let Some(evaluation) = policy.quote(&request) {
                current.record(
                    policy,
                    &evaluation.usage,
                    evaluation.result.as_ref().err(),
                    &evaluation.log,
                );
                let stats = self.stats_of(policy);
                stats.usage.fuel += evaluation.usage.fuel;
                stats.usage.time += evaluation.usage.time;
                stats.usage.memory = stats.usage.memory.max(evaluation.usage.memory);
                let quote = match evaluation.result {
                    Ok(Some(quote)) => quote,
                    Ok(None) => break,
                    Err(error) => {
                        stats.error = Some(error);
                        all.failed = true;
                        break;
                    }
                };
                let name = &policy.manifest().name;
                if let Some(start) = quote.valid_from.filter(|start| *start > request.time) {
                    all.change_at(start, name);
                    break;
                }
                all.push(name, &request, &quote);
                match quote.gpus {
                    None => return QuotedPrices { failed: false, ..all },
                    Some(_) if all.quotes.len() == MAX_QUOTES => return all,
                    Some(gpus) => request.priced = request.priced.saturating_add(gpus.get()),
                }
            }
        }
        all
    }

    /// The statistics of each queried pricer.
    #[must_use]
    pub fn pricers(&self) -> &[PricerStats] {
        &self.pricers
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
    fn push(&mut self, policy: &str, request: &QuoteRequest, quote: &Quote) {
        let QuoteRequest { provider, region, instance_type, .. } = request.clone();
        let price = Price {
            rate: quote.rate,
            plan: Some(quote.plan),
            provider,
            region,
            instance_type,
            source: format!("{}, quoted by {policy}", quote.source),
            as_of: Some(quote.as_of),
            estimate: None,
        };
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
