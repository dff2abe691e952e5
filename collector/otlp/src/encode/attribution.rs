//! Points of how the cost of GPUs is divided among spans of the workload, and of what is not divided yet:
//! spans + unsampled + unattributed + pending = bill, at each export.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Timestamp;

use super::batch::Batch;
use super::instruments::{ATTRIBUTION_COST, ATTRIBUTION_PENDING};
use super::values::{Start, double, text};
use crate::names::attribute;

/// How the cost of GPU time is divided so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DividedCost {
    /// What spans have.
    pub spans: NanoUsd,
    /// What spans have that were not sampled.
    pub unsampled: NanoUsd,
    /// What no span has, and none will.
    pub unattributed: NanoUsd,
}

/// The cost that is divided, between two exports.
#[derive(Debug, Default)]
pub(super) struct AttributionPoints {
    /// `None` if no span is priced.
    costs: Option<DividedCost>,
    /// When the sums start.
    start: Option<Timestamp>,
    /// What the last points were: the sums, and the bill.
    exported: Option<Exported>,
}

type Exported = (DividedCost, Option<NanoUsd>);

impl AttributionPoints {
    /// Begins the sums, if they have not begun.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.start.get_or_insert(at);
    }

    /// Sets the sums so far.
    pub(super) const fn set(&mut self, costs: DividedCost) {
        self.costs = Some(costs);
    }

    /// Adds the points of a round, up to which all GPUs together cost `bill`, if they are priced.
    pub(super) fn add_points(&mut self, bill: Option<NanoUsd>, batch: &mut Batch) {
        let (Some(costs), Some(start)) = (self.costs, self.start) else { return };
        let start = Start::at(start);
        let DividedCost { spans, unsampled, unattributed } = costs;
        let states = [("spans", spans), ("unsampled", unsampled), ("unattributed", unattributed)];
        // Without sampling, the sum of what was not sampled does not begin.
        let is_sum =
            |(state, cost): &(&str, NanoUsd)| *state != "unsampled" || *cost > NanoUsd::ZERO;
        for (state, cost) in states.into_iter().filter(is_sum) {
            let attributes = vec![text(attribute::ATTRIBUTION_STATE, state)];
            batch.add_workload(&ATTRIBUTION_COST, double(start, attributes, cost.as_f64()));
        }
        if let Some(bill) = bill {
            let pending = bill - spans - unsampled - unattributed;
            batch.add_workload(&ATTRIBUTION_PENDING, double(start, Vec::new(), pending.as_f64()));
        }
        self.exported = Some((costs, bill));
    }

    /// Adds the points at the end, unless the last ones were these.
    pub(super) fn add_last_points(&mut self, bill: Option<NanoUsd>, batch: &mut Batch) {
        if self.exported != self.costs.map(|costs| (costs, bill)) {
            self.add_points(bill, batch);
        }
    }
}
