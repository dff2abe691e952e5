//! Which groups of work a GPU does over time, and what its time costs by group.
//!
//! Time of a GPU that does the work of one group is that group's. Of several, it is shared: what each of them
//! costs is not known.

use phasemeter_meter::accounts::Charge;
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Phase;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_otlp::encode::{ServedCost, TimeCost};

/// Maximum number of stretches that have not been metered; beyond it, the oldest are forgotten.
const MAX_STRETCHES: usize = 1_024;

/// The groups of one GPU.
#[derive(Debug, Default)]
pub struct Serving {
    stretches: Vec<Stretch>,
    total: ServedCost,
    /// What has not been taken.
    pending: ServedCost,
}

/// Time in which a GPU does the work of a group.
#[derive(Debug)]
struct Stretch {
    group: WorkGroup,
    from: Timestamp,
    until: Timestamp,
}

impl Serving {
    /// The GPU does the work of this group, too, in this time. It must not be metered yet.
    pub(super) fn add(&mut self, group: WorkGroup, from: Timestamp, until: Timestamp) {
        let touches = |it: &&mut Stretch| it.group == group && it.from <= until && from <= it.until;
        if let Some(known) = self.stretches.iter_mut().find(touches) {
            (known.from, known.until) = (known.from.min(from), known.until.max(until));
            return;
        }
        if self.stretches.len() >= MAX_STRETCHES {
            self.stretches.remove(0);
        }
        self.stretches.push(Stretch { group, from, until });
    }

    /// Adds what time costs, in time order. Its groups are those at its start.
    pub(super) fn charge(&mut self, charge: &Charge) {
        let from = charge.slice.from;
        self.stretches.retain(|it| it.until > from);
        let active = || self.stretches.iter().filter(|it| it.from <= from);
        let Some(first) = active().next().map(|it| it.group.clone()) else { return };
        let part = TimeCost { time: charge.time, cost: charge.cost };
        let mut added = ServedCost::default();
        if active().all(|it| it.group == first) {
            let group = added.groups.entry(first).or_default();
            let is_idle = charge.slice.account.phase() == Some(Phase::Idle);
            *(if is_idle { &mut group.idle } else { &mut group.working }) = part;
        } else {
            for Stretch { group, .. } in active() {
                added.groups.entry(group.clone()).or_default().shared = part;
            }
            added.shared = part;
        }
        self.total += &added;
        self.pending += &added;
    }

    /// Prices all time anew: the GPU had no price before.
    pub(super) fn price(&mut self, rate: Rate) {
        self.total.price(rate);
        self.pending.price(rate);
    }

    /// What was charged since the last call.
    pub(super) fn take(&mut self) -> ServedCost {
        std::mem::take(&mut self.pending)
    }

    /// What its time costs by group.
    #[must_use]
    pub const fn total(&self) -> &ServedCost {
        &self.total
    }
}
