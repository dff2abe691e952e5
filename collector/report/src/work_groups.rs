//! Work by group, like a model, and what the GPUs cost that do it.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::projection::UnitCost;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_otlp::encode::{GroupCost, ServedCost};
use serde::{Serialize, Serializer};

use super::input::Input;
use super::value::{Seconds, Usd};

/// Work done in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Number of units.
    pub count: u64,
    /// Bill ÷ count, to 18 decimals; `None` unless every GPU has a price, or if other meters bill a part of them.
    #[serde(serialize_with = "unit_cost")]
    pub cost_each_usd: Option<UnitCost>,
}

/// Work by group. The groups' own costs, what is shared and what is unserved sum to the bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkGroups {
    /// The groups.
    pub groups: Vec<Group>,
    /// Cost of GPUs while they do the work of several groups; `None` if a GPU has no price.
    pub shared_usd: Option<Usd>,
    /// Cost of GPUs while they are not known to do any group's work; `None` if a GPU has no price.
    pub unserved_usd: Option<Usd>,
}

/// A group of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is all groups beyond the limit.
    pub is_overflow: bool,
    /// Its work, by unit. A unit has a cost if the GPUs are known that do this work, and do no other.
    pub work: BTreeMap<String, Work>,
    /// Time of GPUs that do its work only.
    pub gpu_seconds: Seconds,
    /// Its cost; `None` if a GPU has no price.
    pub cost_usd: Option<Usd>,
    /// The part of that cost in which they are idle; `None` if a GPU has no price.
    pub idle_usd: Option<Usd>,
    /// Time of GPUs that do the work of other groups, too.
    pub shared_gpu_seconds: Seconds,
}

impl WorkGroups {
    /// `bill`: the cost of all GPUs, if they are priced. `None` if no work has labels, and no GPUs are known that
    /// do it.
    pub(super) fn build(input: &Input<'_>, bill: Option<Usd>) -> Option<Self> {
        let mut served = ServedCost::default();
        input.served.iter().for_each(|gpu| served += *gpu);
        if served.groups.is_empty() && input.work_by_group.keys().all(WorkGroup::is_unlabeled) {
            return None;
        }
        let usd = |cost: NanoUsd| bill.map(|_| Usd(cost));
        let mut names: Vec<&WorkGroup> =
            input.work_by_group.keys().chain(served.groups.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let group = |group: &WorkGroup| {
            let of_gpus = served.groups.get(group).copied().unwrap_or_default();
            let GroupCost { working, idle, shared } = of_gpus;
            let is_exclusive = shared.time == Nanos::ZERO && of_gpus.own() > NanoUsd::ZERO;
            let own = bill.filter(|_| is_exclusive && input.has_unit_costs).map(|_| of_gpus.own());
            let counts = input.work_by_group.get(group).into_iter().flatten();
            let work = counts.map(|(unit, count)| {
                let cost_each_usd = own.and_then(|own| UnitCost::of(own, *count));
                ((*unit).to_owned(), Work { count: *count, cost_each_usd })
            });
            Group {
                labels: group.labels().iter().cloned().collect(),
                is_overflow: *group == WorkGroup::Overflow,
                work: work.collect(),
                gpu_seconds: Seconds(Nanos(working.time.0.saturating_add(idle.time.0))),
                cost_usd: usd(of_gpus.own()),
                idle_usd: usd(idle.cost),
                shared_gpu_seconds: Seconds(shared.time),
            }
        };
        let own: NanoUsd = served.groups.values().map(GroupCost::own).sum();
        let shared = served.shared.cost;
        Some(Self {
            groups: names.into_iter().map(group).collect(),
            shared_usd: usd(shared),
            unserved_usd: bill.map(|Usd(bill)| Usd(bill - own - shared)),
        })
    }
}

fn unit_cost<S: Serializer>(cost: &Option<UnitCost>, serializer: S) -> Result<S::Ok, S::Error> {
    cost.map(|cost| cost.to_string()).serialize(serializer)
}
