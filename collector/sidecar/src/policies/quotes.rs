//! Quotes: what pricing policies say a GPU-hour costs.
//!
//! They are asked in turn; the first that has a quote decides. One that fails costs its answer, and
//! the next is asked. This room must not know who else sets prices, nor how long a quote is used.

use std::sync::Arc;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::{Quote, QuoteRequest};

use super::PolicyManager;

/// Who is asked, and what became of it. By default there is nobody to ask.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<PolicyManager>>,
    pricers: Vec<PricerStats>,
}

/// What all pricing policies say together.
#[derive(Debug)]
pub enum QuoteResult {
    /// One of them has a quote.
    Quote(QuotedPrice),
    /// None of them has: the price is for others to say.
    NoQuote,
    /// None of them has, and one failed.
    Failed,
}

/// A price that was quoted.
#[derive(Clone, Debug)]
pub struct QuotedPrice {
    /// What is charged.
    pub price: Price,
    /// Its end, where it has one.
    pub expiry: Option<QuoteExpiry>,
}

/// The end of a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteExpiry {
    /// The first instant at which it does not hold any more.
    pub at: Timestamp,
    /// The name of the policy that said so.
    pub policy: String,
}

/// What became of asking one pricing policy.
#[derive(Debug)]
pub struct PricerStats {
    /// The name of the policy, in whatever generations it was asked.
    pub name: String,
    /// Its last fault.
    pub error: Option<PolicyError>,
    /// What all its answers took; of memory, the most.
    pub usage: Usage,
}

impl Quotes {
    /// These policies are asked, where there are any.
    #[must_use]
    pub fn of(policies: Option<Arc<PolicyManager>>) -> Self {
        Self { policies, pricers: Vec::new() }
    }

    /// Asks the pricers that are in use now. It takes as long as they may take together.
    pub fn query(&mut self, request: &QuoteRequest) -> QuoteResult {
        let Some(policies) = self.policies.clone() else { return QuoteResult::NoQuote };
        let mut answer = QuoteResult::NoQuote;
        let current = policies.current();
        for policy in &current.generation.policies {
            let Some(run) = policy.quote(request) else { continue };
            current.record(policy, &run.usage, run.result.as_ref().err(), &run.log);
            let stats = self.stats_of(policy);
            stats.usage.fuel += run.usage.fuel;
            stats.usage.time += run.usage.time;
            stats.usage.memory = stats.usage.memory.max(run.usage.memory);
            match run.result {
                Ok(Some(quote)) => return QuoteResult::Quote(quoted(policy, request, &quote)),
                Ok(None) => {}
                Err(error) => {
                    stats.error = Some(error);
                    answer = QuoteResult::Failed;
                }
            }
        }
        answer
    }

    /// What became of each that was asked.
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

/// A quote is a price that someone gave, for what was asked about.
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
