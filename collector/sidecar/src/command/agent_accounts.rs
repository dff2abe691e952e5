//! What the agent of a node states of this pod's GPUs: in the report of a sidecar it takes the place of the accounts of
//! whole GPUs that this run has metered.

use std::collections::BTreeMap;

use phasemeter_engine::agent::{AgentPrice, AgentStatement, WatchedAgent};
use phasemeter_engine::live::event;
use phasemeter_engine::pipeline::Finished;
use phasemeter_engine::pricing::{EarlierPrices, Term};
use phasemeter_meter::gpu::{GpuPart, StatedAccounts, StatedPart, StatedState};
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_report::{GpuInput, Input, Utc};
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
    /// Whether one listens.
    is_agent_there: bool,
    /// Where the part of the run in progress is to end, if the run is reported in parts.
    part_end: Option<Timestamp>,
    /// Until when GPUs are in reports of periods as a whole, as this run metered them: no agent had accounted for them.
    whole_until: BTreeMap<String, Timestamp>,
}

/// Those of a GPU.
#[derive(Debug)]
struct FollowedAccounts {
    stated: StatedAccounts,
    /// Whether the pod pays for it.
    is_held: bool,
    /// The price that the agent has now.
    latest: Option<Price>,
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
    /// `None` if nothing is stated of this time.
    part: Option<GpuPart>,
    price: Result<Price, Unpriced>,
    earlier: EarlierPrices,
}

impl AgentAccounts {
    /// Those of a run that starts now.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            start: clock.now(),
            gpus: BTreeMap::new(),
            are_missing: false,
            is_agent_there: false,
            part_end: None,
            whole_until: BTreeMap::new(),
        }
    }

    /// Takes what the agent has stated last.
    pub(super) fn follow(&mut self, agent: &WatchedAgent) {
        self.is_agent_there = agent.absent.is_none();
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
            let (from, until) = (whole_second(state.from), whole_second(state.until));
            let state = StatedState { from, until, ..state };
            if !is_known && self.gpus.len() >= MAX_GPUS {
                continue;
            }
            let gpu = self.gpus.entry(statement.gpu.clone());
            let whole_until = self.whole_until.get(&statement.gpu).copied();
            let start = self.start.max(whole_until.unwrap_or_default());
            let gpu = gpu.or_insert_with(|| FollowedAccounts::new(start, self.part_end));
            gpu.stated.take(state);
            let latest = statement.price.as_ref().and_then(AgentPrice::price);
            gpu.latest = latest.or(gpu.latest.take());
            if !statement.holders.is_empty() {
                gpu.is_held = true;
                gpu.price(statement);
            }
        }
    }

    /// The price that the agent has for a GPU that this pod holds, or has held.
    pub(super) fn price(&self, uuid: &str) -> Option<&Price> {
        self.gpus.get(uuid)?.latest.as_ref()
    }

    /// Whether all that this pod pays until `end` is known.
    pub(super) fn have_reached(&self, end: Timestamp) -> bool {
        let has_reached = |gpu: &FollowedAccounts| {
            gpu.stated.span().is_some_and(|(_, until)| until >= end) || !gpu.is_held
        };
        self.gpus.values().all(has_reached)
    }

    /// The part of the run in progress ends with what the agent accounts for until `end`, in place of any end that was
    /// planned; `None`: with the run.
    pub(super) fn end_part_at(&mut self, end: Option<Timestamp>) {
        if self.part_end != end {
            self.part_end = end;
            self.gpus.values_mut().for_each(|gpu| gpu.stated.end_part_at(end));
        }
    }

    /// No part of the run ends at or after its end, which the accounts may exceed.
    pub(super) fn end_run_at(&mut self, end: Timestamp) {
        if self.part_end.is_some_and(|part| part >= end) {
            self.end_part_at(None);
        }
    }

    /// Whether the accounts of the part in progress, which ends at `end`, are known; if there is no agent, nothing more
    /// is expected.
    pub(super) fn have_part_until(&self, end: Timestamp) -> bool {
        let are_expected = self.is_agent_there && !self.are_missing;
        let has_any = !self.gpus.is_empty() || !are_expected;
        has_any && self.gpus.values().all(|gpu| gpu.stated.has_reached(end) || !are_expected)
    }

    /// What the report of a run until `end` has in place of its own accounts.
    pub(super) fn bill(&self, run: &Finished, gpus: &[GpuIdentity], end: Timestamp) -> AgentBill {
        let stated = |_: &str, gpu: &FollowedAccounts| gpu.stated.whole();
        let mut bill = self.bill_of(run, gpus, end, stated);
        for (uuid, until) in &self.whole_until {
            bill.notes.extend(self.gpus.get(uuid).filter(|gpu| gpu.is_held).map(|_| {
                let until = Utc(run.wall.wall(*until));
                format!("until {until}, {uuid} is in reports of periods only, as a whole: no agent of the node had accounted for it")
            }));
        }
        bill
    }

    /// What the report of the part of a run in progress, until `end`, has in place of its own accounts.
    pub(super) fn bill_so_far(
        &self,
        run: &Finished,
        gpus: &[GpuIdentity],
        end: Timestamp,
    ) -> AgentBill {
        self.bill_of(run, gpus, end, |_, gpu| gpu.stated.part_so_far())
    }

    /// Ends the part of the run in progress, and returns what its report has in place of its own accounts.
    pub(super) fn take_part(
        &mut self,
        run: &Finished,
        gpus: &[GpuIdentity],
        end: Timestamp,
    ) -> AgentBill {
        let mut parts = BTreeMap::new();
        for (identity, metered) in gpus.iter().zip(&run.gpus) {
            let Some(uuid) = identity.uuid.as_ref().filter(|_| metered.part.is_some()) else {
                continue;
            };
            match self.gpus.get_mut(uuid) {
                Some(gpu) if gpu.is_held => {
                    parts.insert(uuid.clone(), gpu.stated.take_part());
                }
                gpu => {
                    self.whole_until.insert(uuid.clone(), end);
                    gpu.into_iter().for_each(|gpu| gpu.stated.begin_after(end));
                }
            }
        }
        self.bill_of(run, gpus, end, |uuid, _| parts.get(uuid).cloned().unwrap_or_default())
    }

    fn bill_of(
        &self,
        run: &Finished,
        gpus: &[GpuIdentity],
        end: Timestamp,
        stated: impl Fn(&str, &FollowedAccounts) -> StatedPart,
    ) -> AgentBill {
        let mut bill = AgentBill::default();
        let is_part = run.part_work.is_some();
        let metered = gpus.iter().zip(&run.gpus);
        for (identity, metered) in metered.filter(|(_, gpu)| !is_part || gpu.part.is_some()) {
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
            let stated = stated(uuid, gpu);
            let part = match &metered.part {
                Some(part) if stated.is_empty() => None,
                Some(part) => stated
                    .of_gpu(&part.summary, rate)
                    .map(|of_pod| GpuPart { alerts: part.alerts.clone(), ..of_pod }),
                None => stated.of_gpu(&metered.meter.summary(), rate),
            };
            if part.is_none() && !is_part {
                bill.notes.push(format!(
                    "{name} is reported as a whole, as this run meters it: the accounts of the agent of the node have not \
                     reached this run; they are some 16 s late"
                ));
                continue;
            }
            bill.notes.extend(notes(&stated, &name, end, |at| Utc(run.wall.wall(at)).to_string()));
            let earlier = gpu.earlier.clone();
            bill.gpus.insert(uuid.clone(), BilledGpu { part, price, earlier });
        }
        bill
    }
}

impl FollowedAccounts {
    fn new(start: Timestamp, part_end: Option<Timestamp>) -> Self {
        let mut stated = StatedAccounts::new(start);
        stated.end_part_at(part_end);
        let earlier = EarlierPrices::default();
        Self { stated, is_held: false, latest: None, price: None, price_from: start, earlier }
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
}

/// A whole second by the clock of the agent, which differs from that of this run by less than a millisecond.
fn whole_second(at: Timestamp) -> Timestamp {
    let second = (at + Nanos::from_millis(500)).floor_second();
    let apart = at.since(second).max(second.since(at));
    if apart < Nanos::from_millis(1) { second } else { at }
}

/// Whose the accounts of a GPU are, and what is in none, of a run or a part of it until `end`.
fn notes(
    stated: &StatedPart,
    name: &str,
    end: Timestamp,
    label: impl Fn(Timestamp) -> String,
) -> Vec<String> {
    let mut notes = Vec::new();
    let seconds = |time: Nanos| time.as_secs_f64();
    if let Some((from, until)) = stated.span.filter(|_| !stated.is_empty()) {
        notes.push(format!(
            "time and cost of {name} are what this pod has of it by the accounts of the agent of the node, {} to {}; \
             utilization, memory and pattern are those of the whole GPU",
            label(from),
            label(until)
        ));
    }
    if stated.missing > Nanos::ZERO {
        let ranges = stated.gaps.iter();
        let ranges = ranges.map(|(from, to)| format!("{} to {}", label(*from), label(*to)));
        notes.push(format!(
            "{:.1} s of {name} are in no account of the agent that this run has: {}",
            seconds(stated.missing),
            ranges.collect::<Vec<_>>().join(", ")
        ));
    }
    let left = stated.span.map_or(Nanos::ZERO, |(_, until)| end.since(until));
    if left > Nanos::ZERO {
        notes.push(format!(
            "the last {:.1} s of {name} are not in this report: the agent of the node had not accounted for them",
            seconds(left)
        ));
    }
    notes
}

impl AgentBill {
    /// Puts it in the place of the accounts of whole GPUs.
    pub(super) fn apply<'a>(&'a self, input: &mut Input<'a>) {
        for gpu in &mut input.gpus {
            let billed = gpu.identity.uuid.as_ref().and_then(|uuid| self.gpus.get(uuid));
            if let Some(BilledGpu { part, price, earlier }) = billed {
                (gpu.part, gpu.price, gpu.earlier) = (part.as_ref(), price, earlier);
                gpu.unpriced_until = None;
            }
        }
        // Of a period in which the agent has accounted for nothing.
        let is_billed = |gpu: &GpuInput<'_>| {
            let billed = gpu.identity.uuid.as_ref().and_then(|uuid| self.gpus.get(uuid));
            billed.is_none_or(|billed| billed.part.is_some())
        };
        input.gpus.retain(is_billed);
        input.provenance.sampling.extend(self.notes.iter().cloned());
    }
}
