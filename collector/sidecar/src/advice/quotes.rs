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

use super::Policies;

/// Who is asked, and what became of it. By default there is nobody to ask.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<Policies>>,
    asked: Vec<Asked>,
}

/// What all pricing policies say together.
#[derive(Debug)]
pub enum Answer {
    /// One of them has a quote.
    Quote(Quoted),
    /// None of them has: the price is for others to say.
    NotMine,
    /// None of them has, and one failed.
    Failed,
}

/// A price that was quoted.
#[derive(Clone, Debug)]
pub struct Quoted {
    /// What is charged.
    pub price: Price,
    /// Its end, where it has one.
    pub end: Option<QuoteEnd>,
}

/// The end of a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteEnd {
    /// The first instant at which it does not hold any more.
    pub at: Timestamp,
    /// The name of the policy that said so.
    pub by: String,
}

/// What became of asking one pricing policy.
#[derive(Debug)]
pub struct Asked {
    /// The name of the policy, in whatever generations it was asked.
    pub name: String,
    /// Its last fault.
    pub fault: Option<PolicyError>,
    /// What all its answers took; of memory, the most.
    pub usage: Usage,
}

impl Quotes {
    /// These policies are asked, where there are any.
    #[must_use]
    pub fn of(policies: Option<Arc<Policies>>) -> Self {
        Self { policies, asked: Vec::new() }
    }

    /// Asks the pricers that are in use now. It takes as long as they may take together.
    pub fn ask(&mut self, request: &QuoteRequest) -> Answer {
        let Some(policies) = self.policies.clone() else { return Answer::NotMine };
        let mut answer = Answer::NotMine;
        let current = policies.current();
        for policy in &current.generation.policies {
            let Some(run) = policy.quote(request) else { continue };
            current.count(policy, &run.usage, run.result.as_ref().err(), &run.log);
            let asked = self.of_policy(policy);
            asked.usage.fuel += run.usage.fuel;
            asked.usage.time += run.usage.time;
            asked.usage.memory = asked.usage.memory.max(run.usage.memory);
            match run.result {
                Ok(Some(quote)) => return Answer::Quote(quoted(policy, request, &quote)),
                Ok(None) => {}
                Err(fault) => {
                    asked.fault = Some(fault);
                    answer = Answer::Failed;
                }
            }
        }
        answer
    }

    /// What became of each that was asked.
    #[must_use]
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    fn of_policy(&mut self, policy: &Policy) -> &mut Asked {
        let name = &policy.manifest().name;
        let known = self.asked.iter().position(|asked| asked.name == *name);
        let place = known.unwrap_or(self.asked.len());
        if known.is_none() {
            let (name, usage) = (name.clone(), Usage::default());
            self.asked.push(Asked { name, fault: None, usage });
        }
        &mut self.asked[place]
    }
}

/// A quote is a price that someone gave, for what was asked about.
fn quoted(policy: &Policy, request: &QuoteRequest, quote: &Quote) -> Quoted {
    let QuoteRequest { provider, region, instance_type, .. } = request.clone();
    let by = &policy.manifest().name;
    Quoted {
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
        end: quote.valid_until.map(|at| QuoteEnd { at, by: by.clone() }),
    }
}
