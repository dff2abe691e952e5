//! The values of one GPU by instant, and the reading of an instant once it is released.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::energy_source::EnergyCounter;
use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity, MissingReason, Reading};
use phasemeter_meter::units::{Millijoules, Nanos, Timestamp, Utilization};
use phasemeter_meter::vendor::Vendor;

use super::attributes::Attributes;
use super::coverage::Coverage;
use super::described::Described;
use super::holder::ShareKey;
use super::holding::Holding;
use super::increases::Increases;
use super::instant::Instant;
use super::own_pods::OwnPods;
use super::pace::Pace;
use super::point_labels::PointLabels;
use super::shares::Shares;
use super::value::Value;

/// Senders measure the values of one instant one after another, up to this far apart.
pub const SAME_INSTANT: Nanos = Nanos::from_millis(500);

/// Maximum number of instances of a host that are distinguished; a further one is not known to be new.
const MAX_INSTANCES: usize = 256;

/// Preference of utilization sources, if none is configured.
const ORDER: [Basis; 6] = [
    Basis::DcgmGpu,
    Basis::DcgmGrEngine,
    Basis::DcgmSm,
    Basis::NvmlSamples,
    Basis::NvmlGpu,
    Basis::HwGpu,
];

/// A reading that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldReading {
    /// The index of its GPU in [`ReadingBuffer::identities`].
    pub buffer_index: usize,
    /// The reading.
    pub reading: Reading,
    /// The source of its utilization, the same for all readings of a GPU as long as it has it.
    pub basis: Basis,
    /// How long a reading of this GPU represents the present.
    pub stale_after: Nanos,
    /// The parts of the time since the GPU's previous reading that another meter has billed.
    pub billed_elsewhere: Vec<(Timestamp, Timestamp)>,
    /// The parts of that time that neither another meter has billed nor the previous reading covers.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// The XID error that has occurred since the previous reading.
    pub xid: Option<u64>,
    /// The rates of its links.
    pub rates: LinkRates,
    /// What was found out about holders since the previous reading. It takes effect before this one.
    pub holder_changes: Vec<HolderChange>,
    /// Whether its sender reports XID errors, even if there was none.
    pub reports_errors: bool,
    /// The quantities received under the names under which Phasemeter sends them.
    pub own_names: BTreeSet<Quantity>,
}

/// A GPU whose values are held.
#[derive(Debug, Default)]
pub(super) struct HeldGpu {
    pub(super) instants: BTreeMap<Timestamp, Instant>,
    /// When its last value arrived.
    pub(super) arrived: Nanos,
    /// The last instant that another meter has billed.
    pub(super) elsewhere: Option<Timestamp>,
    pub(super) basis: Option<Basis>,
    pub(super) stale_after: Option<Nanos>,
    pub(super) last: Option<Timestamp>,
    /// The last XID error that was reported, which may be older than the first reading.
    pub(super) last_xid: Option<u64>,
    /// Attributes from the labels of its points.
    pub(super) attributes: Attributes,
    /// The shares of its holders.
    pub(super) shares: Shares,
    /// The labels of its points.
    pub(super) labels: PointLabels,
    /// See [`HeldReading::own_names`].
    pub(super) own_names: BTreeSet<Quantity>,
    /// Who holds it, and what holders use.
    holding: Holding,
    /// How often labels name its holders.
    pace: Pace,
    /// When each of its MIG instances had a utilization last.
    measured: BTreeMap<String, Timestamp>,
    /// What is known of those besides.
    pub(super) described: Described,
    /// Its energy, if its sender reports increases.
    energy: Increases,
    /// The instances of its host so far. Several senders may name one differently, each again and again.
    instances: BTreeSet<String>,
}

impl HeldGpu {
    /// Finds the instant a value belongs to, or opens one. Its time is that of its first utilization. `utilization`:
    /// whether the value is one, and if it can be read, its basis.
    pub(super) fn instant(
        &mut self,
        at: Timestamp,
        arrived: Nanos,
        holder: Option<&ShareKey>,
        utilization: Option<Option<Basis>>,
    ) -> Timestamp {
        let near = self.instants.range(at.saturating_sub(SAME_INSTANT)..=at + SAME_INSTANT);
        let distance = |other: Timestamp| at.since(other).max(other.since(at));
        let nearest = near.map(|(at, _)| *at).min_by_key(|other| distance(*other));
        let key = match (nearest, utilization) {
            (Some(other), _) if other == at => at,
            (Some(other), None) => other,
            (Some(other), Some(basis)) => self.join(other, at, holder, basis),
            (None, _) => at,
        };
        self.instants.entry(key).or_insert_with(|| Instant::new(key, arrived));
        key
    }

    /// The instant that a utilization joins: the one at `near`, if that lacks it, else a new one.
    fn join(
        &mut self,
        near: Timestamp,
        at: Timestamp,
        holder: Option<&ShareKey>,
        basis: Option<Basis>,
    ) -> Timestamp {
        let Some(instant) = self.instants.get(&near) else { return at };
        let key = match basis {
            _ if instant.utilization.is_empty() => at,
            Some(basis) => match instant.measured_at(basis, holder) {
                None => at.min(near),
                // Another point of the same value.
                Some(known) if known == at => return near,
                Some(_) => return at,
            },
            None => return at,
        };
        if let Some(instant) = self.instants.remove(&near) {
            self.instants.insert(key, instant.moved_to(key));
        }
        key
    }

    /// Takes the first instant, and completes the identity of the GPU with it; `None` if it is that of
    /// another sender, or billed elsewhere.
    pub(super) fn take_first(
        &mut self,
        buffer_index: usize,
        identity: &mut GpuIdentity,
        preferred: Option<Basis>,
        (coverage, own_pods): (&Coverage, &OwnPods),
    ) -> Option<HeldReading> {
        let (at, mut instant) = self.instants.pop_first()?;
        if coverage.contains(at) {
            self.elsewhere = Some(at);
            return None;
        }
        for value in instant.values() {
            if let Value::MemoryTotal(total) = value {
                identity.memory_total = Some(total);
            }
        }
        self.complete_names(at, &mut instant);
        self.see_holder_metrics(at, &instant, identity);
        if instant.is_of_holders() {
            return None;
        }
        let states_holders = self.note_pace(at, &instant, own_pods);
        let order = || preferred.into_iter().chain(ORDER);
        let chosen = self.basis.filter(|basis| {
            instant.has_any(*basis) || self.instants.values().any(|it| it.has_any(*basis))
        });
        let basis = chosen.or_else(|| order().find(|basis| instant.has_any(*basis)));
        if let Some(basis) = basis.filter(|_| !instant.mig.is_empty()) {
            self.leave_out_instances(at, &mut instant, basis);
        }
        let utilization = match basis.map(|basis| self.utilization(&instant, identity, basis)) {
            Some(Some(utilization)) => Ok(utilization),
            Some(None) => match instant.missing(basis).or_else(|| instant.over(basis)) {
                Some(reason) => Err(reason),
                // It is another sender's instant, between those of the chosen one.
                None => {
                    if !self.is_silent(at) {
                        self.see_labels(at, &instant, identity, states_holders);
                    }
                    return None;
                }
            },
            None => Err(instant.missing(None).unwrap_or(MissingReason::NotCollected)),
        };
        self.basis = basis.or(self.basis);
        let memory_used = self.shares.memory_used(&instant, &mut identity.memory_total);
        let memory_used = memory_used.or_else(|| instant.mig.memory_used());
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        self.see_labels(at, &instant, identity, states_holders);
        let holder_changes = self.holding.changes(at, self.pace.validity(stale_after));
        let last = self.last.replace(at).unwrap_or(at);
        let stale = (last + stale_after).min(at);
        let begins_instance = self.begins_instance(instant.instance.take());
        let mut reading =
            Reading { utilization, memory_used, begins_instance, ..instant.reading() };
        if let Some((increase, counter, start)) = instant.values().find_map(energy_increase) {
            reading.energy = self.energy.add(start, at, increase.0).map(Millijoules);
            reading.energy_counter = counter;
        }
        let reported = instant.values().find_map(|value| match value {
            Value::Xid(code) => Some(code),
            _ => None,
        });
        let xid = self.new_xid(reported);
        Some(HeldReading {
            buffer_index,
            reading,
            basis: self.basis.or(preferred).unwrap_or_else(|| usual_basis(identity.vendor())),
            stale_after,
            billed_elsewhere: coverage.within(last, at).collect(),
            pauses: coverage.outside(stale, at).collect(),
            xid,
            rates: instant.rates(),
            holder_changes,
            reports_errors: reported.is_some(),
            own_names: self.own_names.clone(),
        })
    }

    /// Whether the GPU has had no reading for long before an instant.
    fn is_silent(&self, at: Timestamp) -> bool {
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        self.last.is_some_and(|last| last + stale_after < at)
    }

    /// The utilization of the GPU: its own, else that of its shares, else that of its MIG instances.
    fn utilization(
        &mut self,
        instant: &Instant,
        gpu: &GpuIdentity,
        basis: Basis,
    ) -> Option<Utilization> {
        let of_gpu = self.shares.utilization(instant, basis);
        of_gpu.or_else(|| instant.mig.utilization(gpu, basis))
    }

    /// Leaves out the MIG instances of which this utilization is missing for once.
    fn leave_out_instances(&mut self, at: Timestamp, instant: &mut Instant, basis: Basis) {
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        self.measured.retain(|_, measured| at <= *measured + stale_after);
        let left_out = instant.mig.leave_out(basis, |id| self.measured.contains_key(id));
        self.shares.unreadable += left_out;
        self.measured.extend(instant.mig.measured(basis).map(|id| (id.clone(), at)));
    }

    /// Whether the host is an instance that it has not been before.
    fn begins_instance(&mut self, instance: Option<String>) -> bool {
        let Some(instance) = instance.filter(|_| self.instances.len() < MAX_INSTANCES) else {
            return false;
        };
        let is_other = !self.instances.is_empty();
        self.instances.insert(instance) && is_other
    }

    /// The reported XID error, if it has occurred since the last report.
    fn new_xid(&mut self, reported: Option<u64>) -> Option<u64> {
        let reported = reported?;
        let before = self.last_xid.replace(reported)?;
        (reported != before && reported > 0).then_some(reported)
    }
}

/// The utilization source of a GPU that has none: DCGM is NVIDIA's.
const fn usual_basis(vendor: Vendor) -> Basis {
    match vendor {
        Vendor::Nvidia => Basis::DcgmGpu,
        Vendor::Amd | Vendor::Intel => Basis::HwGpu,
    }
}

const fn energy_increase(value: Value) -> Option<(Millijoules, EnergyCounter, Option<Timestamp>)> {
    match value {
        Value::EnergyIncrease(increase, counter, start) => Some((increase, counter, start)),
        _ => None,
    }
}
