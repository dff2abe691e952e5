//! What GPUs cost that do the work of groups, like a model.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::units::Nanos;
use phasemeter_meter::work_group::WorkGroup;

/// GPU time, and what it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeCost {
    /// GPU time.
    pub time: Nanos,
    /// Its cost.
    pub cost: NanoUsd,
}

impl AddAssign for TimeCost {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.cost += other.cost;
    }
}

/// The GPU time of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCost {
    /// Time of GPUs that do its work only, and are not idle.
    pub working: TimeCost,
    /// Time of GPUs that do its work only, and are idle.
    pub idle: TimeCost,
    /// Time of GPUs that do the work of other groups, too. Each of them has it here.
    pub shared: TimeCost,
}

impl GroupCost {
    /// What it costs to serve this group and no other.
    #[must_use]
    pub fn own(&self) -> NanoUsd {
        self.working.cost + self.idle.cost
    }
}

impl AddAssign for GroupCost {
    fn add_assign(&mut self, other: Self) {
        self.working += other.working;
        self.idle += other.idle;
        self.shared += other.shared;
    }
}

/// What GPUs cost that do the work of groups: the groups' own cost and what is shared is at most the bill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedCost {
    /// By group.
    pub groups: BTreeMap<WorkGroup, GroupCost>,
    /// Time of GPUs while they do the work of several groups, once.
    pub shared: TimeCost,
}

impl ServedCost {
    /// Prices all of it anew, of a GPU that had no price before.
    pub fn price(&mut self, rate: Rate) {
        for group in self.groups.values_mut() {
            let GroupCost { working, idle, shared } = group;
            for part in [working, idle, shared] {
                part.cost = rate.cost(part.time);
            }
        }
        self.shared.cost = rate.cost(self.shared.time);
    }
}

impl AddAssign<&Self> for ServedCost {
    fn add_assign(&mut self, other: &Self) {
        for (group, cost) in &other.groups {
            *self.groups.entry(group.clone()).or_default() += *cost;
        }
        self.shared += other.shared;
    }
}
