//! What the agent of a node states of this pod's GPUs: in the report of a sidecar it takes the place of the accounts of
//! whole GPUs that this run has metered.

use std::collections::BTreeMap;

use phasemeter_engine::agent::{AgentPrice, AgentStatement, WatchedAgent};
use phasemeter_engine::live::event;
use phasemeter_engine::pipeline::Finished;
use phasemeter_engine::pricing::{EarlierPrices, Term};
use phasemeter_meter::gpu::{GpuPart, StatedAccounts};
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_report::{Input, Utc};
use phasemeter_sources::clock::Clock;
use phasemeter_terminal::escape::clean;
use tracing::warn;

/// Maximum number of GPUs of a node.
const MAX_GPUS: usize = 256;

/// The accounts of this pod, by the UUIDs of GPUs.
#[derive(Debug)]
pub(super) struct AgentAccounts {
    clock: Clock,
    start: Timestamp,
    gpus: BTreeMap<String, FollowedAccounts>,
    /// Whether the agent is known to send none.
    are_missing: bool,
}

/// Those of a GPU.
#[derive(Debug)]
struct FollowedAccounts {
    stated: StatedAccounts,
    /// Whether the pod pays for it.
    is_held: bool,
    price: Option<Result<Price, Unpriced>>,
    price_from: Timestamp,
    earlier: EarlierPrices,
}

/// What the report has in place of the accounts of whole GPUs, by their UUIDs.
#[derive(Debug, Default)]
pub(super) struct AgentBill {
    gpus: BTreeMap<String, BilledGpu>,
    /// What the report states about it, each a sentence without its full stop.
    pub(super) notes: Vec<String>,
}

#[derive(Debug)]
struct BilledGpu {
    part: GpuPart,
    price: Result<Price, Unpriced>,
    earlier: EarlierPrices,
}

impl AgentAccounts {
    /// Those of a run that starts now.
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, start: clock.now(), gpus: BTreeMap::new(), are_missing: false }
    }

    /// Takes what the agent has stated last.
    pub(super) fn follow(&mut self, agent: &WatchedAgent) {
        if agent.sends_accounts == Some(false) && !self.are_missing {
            self.are_missing = true;
            warn!(
                "the agent of the node sends no accounts: the report is of whole GPUs, as this run meters them; use the \
                 same version for both"
            );
        }
        self.are_missing &= agent.sends_accounts != Some(true);
        for statement in agent.accounts.iter() {
            let is_known = self.gpus.contains_key(&statement.gpu);
            let Some(state) = statement.state(&self.clock) else { continue };
            if !is_known && self.gpus.len() >= MAX_GPUS {
                continue;
            }
            let gpu = self.gpus.entry(statement.gpu.clone());
            let gpu = gpu.or_insert_with(|| FollowedAccounts::new(self.start));
            gpu.stated.take(state);
            if !statement.holders.is_empty() {
                gpu.is_held = true;
                gpu.price(statement);
            }
        }
    }

    /// Whether all that this pod pays until `end` is known.
    pub(super) fn have_reached(&self, end: Timestamp) -> bool {
        let has_reached = |gpu: &FollowedAccounts| {
            gpu.stated.span().is_some_and(|(_, until)| until >= end) || !gpu.is_held
        };
        self.gpus.values().all(has_reached)
    }

    /// What the report of a run until `end` has in place of its own accounts.
    pub(super) fn bill(&self, run: &Finished, gpus: &[GpuIdentity], end: Timestamp) -> AgentBill {
        let mut bill = AgentBill::default();
        for (identity, metered) in gpus.iter().zip(&run.gpus) {
            let Some(uuid) = &identity.uuid else { continue };
            let name = event::name(Some(identity));
            let Some(gpu) = self.gpus.get(uuid).filter(|gpu| gpu.is_held) else {
                if self.are_missing {
                    bill.notes.push(format!(
                        "{name} is reported as a whole, as this run meters it: the agent of the node sends no accounts"
                    ));
                }
                continue;
            };
            let price = gpu.price.clone().unwrap_or(Err(Unpriced::NothingKnown));
            let rate = price.as_ref().ok().map(|price| price.rate);
            let Some(part) = metered.meter.part_of(&gpu.stated, rate) else {
                bill.notes.push(format!(
                    "{name} is reported as a whole, as this run meters it: the accounts of the agent of the node have not \
                     reached this run; they are some 16 s late"
                ));
                continue;
            };
            bill.notes.extend(gpu.notes(&name, end, |at| Utc(run.wall.wall(at)).to_string()));
            let earlier = gpu.earlier.clone();
            bill.gpus.insert(uuid.clone(), BilledGpu { part, price, earlier });
        }
        bill
    }
}

impl FollowedAccounts {
    fn new(start: Timestamp) -> Self {
        Self {
            stated: StatedAccounts::new(start),
            is_held: false,
            price: None,
            price_from: start,
            earlier: EarlierPrices::default(),
        }
    }

    /// Notes the price of what is stated.
    fn price(&mut self, statement: &AgentStatement) {
        let known = statement.price.as_ref().and_then(AgentPrice::price);
        let why = || statement.unpriced.as_deref().unwrap_or("the agent of the node has no price");
        let price = known.ok_or_else(|| Unpriced::Stated(clean(why())));
        let Some((_, until)) = self.stated.span() else {
            self.price = Some(price);
            return;
        };
        if self.price.as_ref() == Some(&price) {
            return;
        }
        if let Some(Ok(before)) = self.price.replace(price) {
            self.earlier.push(Term { price: before, from: self.price_from, until });
            self.price_from = until;
        }
    }

    /// Whose the accounts are, and what is in none.
    fn notes(
        &self,
        name: &str,
        end: Timestamp,
        label: impl Fn(Timestamp) -> String,
    ) -> Vec<String> {
        let Some((from, until)) = self.stated.span() else { return Vec::new() };
        let mut notes = vec![format!(
            "time and cost of {name} are what this pod has of it by the accounts of the agent of the node, {} to {}; \
             utilization, memory and pattern are those of the whole GPU",
            label(from),
            label(until)
        )];
        let (gaps, missing) = self.stated.gaps();
        let seconds = |time: Nanos| time.as_secs_f64();
        if missing > Nanos::ZERO {
            let ranges =
                gaps.iter().map(|(from, to)| format!("{} to {}", label(*from), label(*to)));
            let ranges: Vec<_> = ranges.collect();
            notes.push(format!(
                "{:.1} s of {name} are in no account of the agent that this run has: {}",
                seconds(missing),
                ranges.join(", ")
            ));
        }
        let left = end.since(until);
        if left > Nanos::ZERO {
            notes.push(format!(
                "the last {:.1} s of {name} are not in this report: the agent of the node had not accounted for them",
                seconds(left)
            ));
        }
        notes
    }
}

impl AgentBill {
    /// Puts it in the place of the accounts of whole GPUs.
    pub(super) fn apply<'a>(&'a self, input: &mut Input<'a>) {
        for gpu in &mut input.gpus {
            let billed = gpu.identity.uuid.as_ref().and_then(|uuid| self.gpus.get(uuid));
            if let Some(BilledGpu { part, price, earlier }) = billed {
                (gpu.part, gpu.price, gpu.earlier) = (Some(part), price, earlier);
                gpu.unpriced_until = None;
            }
        }
        input.provenance.sampling.extend(self.notes.iter().cloned());
    }
}
