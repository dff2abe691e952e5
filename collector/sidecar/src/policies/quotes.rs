//! Quotes of pricing policies.
//!
//! Pricers are queried in order; the first quote is used. If one fails, the next is queried. Must not
//! depend on other sources of prices or on how long a quote is used.

use std::sync::Arc;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::{Quote, QuoteRequest};

use super::PolicyManager;

/// Queries pricers and keeps their statistics. The default has no pricers.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<PolicyManager>>,
    pricers: Vec<PricerStats>,
}

/// The combined result of all pricers.
#[derive(Debug)]
pub enum QuoteResult {
    /// The first quote.
    Quote(QuotedPrice),
    /// No pricer returned a quote.
    NoQuote,
    /// No pricer returned a quote, and at least one failed.
    Failed,
}

/// A quoted price.
#[derive(Clone, Debug)]
pub struct QuotedPrice {
    /// The price.
    pub price: Price,
    /// When it expires, if it does.
    pub expiry: Option<QuoteExpiry>,
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

    /// Queries the active pricers. Blocks for at most the sum of their deadlines.
    pub fn query(&mut self, request: &QuoteRequest) -> QuoteResult {
        let Some(policies) = self.policies.clone() else { return QuoteResult::NoQuote };
        let mut result = QuoteResult::NoQuote;
        let current = policies.current();
        for policy in &current.generation.policies {
            let Some(evaluation) = policy.quote(request) else { continue };
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
            match evaluation.result {
                Ok(Some(quote)) => return QuoteResult::Quote(quoted(policy, request, &quote)),
                Ok(None) => {}
                Err(error) => {
                    stats.error = Some(error);
                    result = QuoteResult::Failed;
                }
            }
        }
        result
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

/// Converts a quote into a price for the request.
fn quoted(policy: &Policy, request: &QuoteRequest, quote: &Quote) -> QuotedPrice {
    let QuoteRequest { provider, region, instance_type, .. } = request.clone();
    let by = &policy.manifest().name;
    QuotedPrice {
        price: Price {
            rate: quote.rate,
            plan: Some(quote.plan),
            provider,
            region,
            instance_type,
            source: format!("{}, quoted by {by}", quote.source),
            as_of: Some(quote.as_of),
            estimate: None,
        },
        expiry: quote.valid_until.map(|at| QuoteExpiry { at, policy: by.clone() }),
    }
}
