//! Quotes: what pricing policies say a GPU-hour costs.
//!
//! They are asked in turn, once a model; the first that has a quote decides. One that fails costs
//! its answer, and the next is asked. This room must not know who else sets prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::fault::Fault;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::{Quote, QuoteRequest};

use super::Policies;

/// What was quoted so far. By default there is nobody to ask.
#[derive(Default)]
pub struct Quotes {
    policies: Option<Arc<Policies>>,
    /// What was quoted for each model; `None` where nobody knew.
    quoted: BTreeMap<String, Option<Price>>,
    /// Until when quotes hold that have an end, and by whom they are.
    ends: Vec<(Timestamp, Arc<Policy>)>,
    asked: Vec<Asked>,
}

/// What became of asking one pricing policy.
#[derive(Debug)]
pub struct Asked {
    /// Whom.
    pub policy: Arc<Policy>,
    /// Its last fault.
    pub fault: Option<Fault>,
    /// What all its answers took; of memory, the most.
    pub usage: Usage,
}

impl Quotes {
    /// These policies are asked, where there are any.
    #[must_use]
    pub fn of(policies: Option<Arc<Policies>>) -> Self {
        Self { policies, ..Self::default() }
    }

    /// The price of a model, where any policy quotes one.
    pub fn price(&mut self, request: &QuoteRequest) -> Option<Price> {
        if let Some(known) = self.quoted.get(&request.model) {
            return known.clone();
        }
        let policies = Arc::clone(self.policies.as_ref()?);
        let generation = policies.current();
        let mut pricers = generation.policies.iter();
        let quoted = pricers.find_map(|policy| self.ask(&policies, policy, request));
        self.quoted.insert(request.model.clone(), quoted.clone());
        quoted
    }

    /// Quotes that ended before this instant, each with its end and the name of who gave it. They
    /// are held on to: the price of a GPU does not end in the middle of its run.
    pub fn ended_before(&self, at: Timestamp) -> impl Iterator<Item = (Timestamp, &str)> {
        let ended = self.ends.iter().filter(move |(end, _)| *end < at);
        ended.map(|(end, policy)| (*end, policy.manifest().name.as_str()))
    }

    /// What became of each that was asked.
    #[must_use]
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    fn ask(
        &mut self,
        policies: &Policies,
        policy: &Arc<Policy>,
        request: &QuoteRequest,
    ) -> Option<Price> {
        let run = policy.quote(request)?;
        policies.count(policy, &run.usage, run.answer.as_ref().err(), &run.log);
        let asked = self.of_policy(policy);
        asked.usage.fuel += run.usage.fuel;
        asked.usage.time += run.usage.time;
        asked.usage.memory = asked.usage.memory.max(run.usage.memory);
        match run.answer {
            Ok(quote) => quote.map(|quote| {
                self.ends.extend(quote.valid_until.map(|end| (end, Arc::clone(policy))));
                price(policy, request, &quote)
            }),
            Err(fault) => {
                asked.fault = Some(fault);
                None
            }
        }
    }

    fn of_policy(&mut self, policy: &Arc<Policy>) -> &mut Asked {
        let known = self.asked.iter().position(|asked| Arc::ptr_eq(&asked.policy, policy));
        let place = known.unwrap_or(self.asked.len());
        if known.is_none() {
            let (policy, usage) = (Arc::clone(policy), Usage::default());
            self.asked.push(Asked { policy, fault: None, usage });
        }
        &mut self.asked[place]
    }
}

/// A quote is a price that someone gave, for what was asked about.
fn price(policy: &Policy, request: &QuoteRequest, quote: &Quote) -> Price {
    let QuoteRequest { provider, region, instance_type, .. } = request.clone();
    Price {
        rate: quote.rate,
        plan: Some(quote.plan),
        provider,
        region,
        instance_type,
        source: format!("{}, quoted by {}", quote.source, policy.manifest().name),
        as_of: Some(quote.day),
        estimate: None,
    }
}
