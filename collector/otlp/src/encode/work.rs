//! Points of work done, and of dollars per unit of work: of all of it, and by group.

use std::collections::{BTreeMap, VecDeque};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;

use super::batch::Batch;
use super::instruments::{WORK, WORK_COST, WORK_GPU_COST};
use super::served_cost::{GroupCost, ServedCost};
use super::values::{Start, double, flag, integer, number, text, whole};
use crate::names::attribute;

/// Reports that wait for the readings of their time. Beyond it the oldest counts early.
const CAPACITY: usize = 16_384;

/// The attribute of the point of all groups beyond the limit, as the SDK has it.
const OVERFLOW: &str = "otel.metric.overflow";

/// Work done, between two exports.
#[derive(Debug, Default)]
pub(super) struct WorkPoints {
    /// In order of arrival.
    waiting: VecDeque<Reported>,
    /// Before the last boundary, by unit, of all groups.
    totals: BTreeMap<&'static str, Total>,
    /// The same by group.
    groups: BTreeMap<(WorkGroup, &'static str), GroupTotal>,
    /// What GPUs cost by group.
    served: ServedCost,
    /// When the sums start.
    start: Option<Timestamp>,
    /// Whether it is not known what all of the work costs.
    is_cost_partial: bool,
}

/// Work that was done at an instant.
#[derive(Debug)]
struct Reported {
    at: Timestamp,
    unit: &'static str,
    group: WorkGroup,
    count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    /// At the last export that had any of it.
    exported: u64,
    cost: NanoUsd,
}

/// Work of a group in one unit.
#[derive(Clone, Copy, Debug, Default)]
struct GroupTotal {
    count: u64,
    /// At the last export that had any of it.
    exported: u64,
    cost: GroupCost,
}

impl WorkPoints {
    /// Begins the sums, if they have not begun.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.start.get_or_insert(at);
    }

    /// Leaves out costs per unit: other meters have a part of the GPUs that did the work.
    pub(super) const fn leave_out_unit_costs(&mut self) {
        self.is_cost_partial = true;
    }

    /// Adds work that was done at this instant.
    pub(super) fn record(
        &mut self,
        at: Timestamp,
        unit: &'static str,
        group: &WorkGroup,
        count: u64,
    ) {
        match self.waiting.back_mut() {
            Some(last) if last.at == at && last.unit == unit && last.group == *group => {
                last.count = last.count.saturating_add(count);
            }
            _ => self.waiting.push_back(Reported { at, unit, group: group.clone(), count }),
        }
        if self.waiting.len() > CAPACITY
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.count(oldest);
        }
    }

    fn count(&mut self, Reported { unit, group, count, .. }: Reported) {
        let total = &mut self.totals.entry(unit).or_default().count;
        *total = total.saturating_add(count);
        let of_group = &mut self.groups.entry((group, unit)).or_default().count;
        *of_group = of_group.saturating_add(count);
    }

    /// Adds what GPUs cost by group.
    pub(super) fn add_served(&mut self, cost: &ServedCost) {
        self.served += cost;
    }

    /// Adds the points at a boundary, up to which all GPUs together cost `cost`, if they are priced. The cost per
    /// unit is absent if no work was done since the last export.
    pub(super) fn add_points(&mut self, at: Timestamp, cost: Option<NanoUsd>, batch: &mut Batch) {
        let waiting = std::mem::take(&mut self.waiting);
        for reported in waiting {
            if reported.at <= at {
                self.count(reported);
            } else {
                self.waiting.push_back(reported);
            }
        }
        let Some(start) = self.start else { return };
        let start = Start::at(start);
        let unit_cost = cost.filter(|_| !self.is_cost_partial);
        self.add_groups(start, unit_cost.is_some(), batch);
        self.add_totals(unit_cost, batch);
        if cost.is_some() {
            self.add_gpu_costs(start, batch);
        }
    }

    /// The cost per unit of all work.
    fn add_totals(&mut self, cost: Option<NanoUsd>, batch: &mut Batch) {
        for (unit, total) in &mut self.totals {
            let done = total.count - total.exported;
            if done == 0 {
                continue;
            }
            if let Some(cost) = cost {
                let each = (cost - total.cost).as_f64() / done as f64;
                let attributes = vec![text(attribute::WORK_UNIT, *unit)];
                batch.add_workload(&WORK_COST, double(Start::NONE, attributes, each));
                total.cost = cost;
            }
            total.exported = total.count;
        }
    }

    /// Work by group, and the cost per unit of those whose GPUs are known and do no other work.
    fn add_groups(&mut self, start: Start, is_priced: bool, batch: &mut Batch) {
        for ((group, unit), total) in &mut self.groups {
            let attributes = with_labels(text(attribute::WORK_UNIT, *unit), group);
            batch.add_workload(&WORK, integer(start, attributes.clone(), total.count));
            let done = total.count - total.exported;
            if done == 0 {
                continue;
            }
            let cost = self.served.groups.get(group).copied().unwrap_or_default();
            let own = cost.own() - total.cost.own();
            let is_shared = cost.shared.time > total.cost.shared.time;
            if is_priced && own > NanoUsd::ZERO && !is_shared && !group.is_unlabeled() {
                let each = own.as_f64() / done as f64;
                batch.add_workload(&WORK_COST, double(Start::NONE, attributes, each));
            }
            (total.exported, total.cost) = (total.count, cost);
        }
    }

    /// What GPUs cost by group, and while they do the work of several.
    fn add_gpu_costs(&self, start: Start, batch: &mut Batch) {
        let state = |state: &str| text(attribute::WORK_GPU_STATE, state);
        for (group, GroupCost { working, idle, .. }) in &self.served.groups {
            for (name, part) in [("working", working), ("idle", idle)] {
                let point = double(start, with_labels(state(name), group), part.cost.as_f64());
                batch.add_workload(&WORK_GPU_COST, point);
            }
        }
        let shared = self.served.shared;
        if shared.cost > NanoUsd::ZERO {
            let point = double(start, vec![state("shared")], shared.cost.as_f64());
            batch.add_workload(&WORK_GPU_COST, point);
        }
    }

    /// The attributes of the experiment's span: all work, and of its `cost` the part per unit.
    pub(super) fn attributes(&self, cost: Option<NanoUsd>) -> Vec<KeyValue> {
        let cost = cost.filter(|_| !self.is_cost_partial);
        let mut counts: BTreeMap<&str, u64> =
            self.totals.iter().map(|(unit, total)| (*unit, total.count)).collect();
        for Reported { unit, count, .. } in &self.waiting {
            let sum = counts.entry(*unit).or_default();
            *sum = sum.saturating_add(*count);
        }
        let done = counts.into_iter().filter(|(_, count)| *count > 0);
        done.flat_map(|(unit, count)| {
            let each = cost.map(|cost| cost.as_f64() / count as f64);
            let each = each.map(|each| number(format!("phasemeter.work.cost_per.{unit}"), each));
            [Some(whole(&format!("phasemeter.work.{unit}"), count)), each].into_iter().flatten()
        })
        .collect()
    }
}

/// An attribute, and the labels of a group.
fn with_labels(first: KeyValue, group: &WorkGroup) -> Vec<KeyValue> {
    let labels = group.labels().iter();
    let labels =
        labels.map(|(key, value)| text(&format!("{}.{key}", attribute::WORK_LABEL), value));
    let overflow = (*group == WorkGroup::Overflow).then(|| flag(OVERFLOW, true));
    std::iter::once(first).chain(labels).chain(overflow).collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
    use opentelemetry_proto::tonic::resource::v1::Resource;

    use super::super::settings::TemporalityPreference;
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    /// The points at a boundary: metric and value.
    fn points(work: &mut WorkPoints, boundary: u64, cost: Option<i128>) -> Vec<(String, f64)> {
        let mut batch = Batch::default();
        work.add_points(at(boundary), cost.map(NanoUsd), &mut batch);
        let resource = Resource::default();
        let request = batch.into_request(&[], &resource, TemporalityPreference::Cumulative);
        let metrics = request.into_iter().flat_map(|request| request.resource_metrics);
        let metrics = metrics.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics);
        let value = |metric: opentelemetry_proto::tonic::metrics::v1::Metric| {
            let points = match metric.data.unwrap() {
                Data::Sum(sum) => sum.data_points,
                Data::Gauge(gauge) => gauge.data_points,
                other => panic!("{other:?}"),
            };
            let [point] = &points[..] else { panic!("{points:?}") };
            let value = match point.value.unwrap() {
                Value::AsInt(count) => count as f64,
                Value::AsDouble(value) => value,
            };
            (metric.name, value)
        };
        metrics.map(value).collect()
    }

    #[test]
    fn work_counts_at_its_time_and_costs_what_time_since_the_last_work_costs() {
        let mut work = WorkPoints::default();
        work.begin(at(0));
        work.record(at(10), "steps", &WorkGroup::default(), 3);
        work.record(at(70), "steps", &WorkGroup::default(), 5);
        let expect = |list: &[(&str, f64)]| {
            list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
        };
        let (sum, each) = ("phasemeter.work.done", "phasemeter.work.unit_cost");
        let found = points(&mut work, 60, Some(6_000_000_000));
        assert_eq!(found, expect(&[(sum, 3.0), (each, 2.0)]));
        let found = points(&mut work, 65, Some(7_000_000_000));
        assert_eq!(found, expect(&[(sum, 3.0)]), "an interval without work has no cost per unit");
        let found = points(&mut work, 120, Some(16_000_000_000));
        assert_eq!(found, expect(&[(sum, 8.0), (each, 2.0)]));
        work.record(at(130), "steps", &WorkGroup::default(), 1);
        assert_eq!(points(&mut work, 180, None), expect(&[(sum, 9.0)]), "without a price");
    }

    #[test]
    fn span_has_work_and_cost_per_unit_unless_there_is_none() {
        let of = |work: &WorkPoints, cost: Option<i128>| {
            let attributes = work.attributes(cost.map(NanoUsd)).into_iter();
            let value = |it: KeyValue| match it.value.unwrap().value.unwrap() {
                Any::IntValue(count) => count as f64,
                Any::DoubleValue(value) => value,
                other => panic!("{other:?}"),
            };
            attributes.map(|it| (it.key.clone(), value(it))).collect::<Vec<_>>()
        };
        let mut work = WorkPoints::default();
        work.record(at(10), "steps", &WorkGroup::default(), 0);
        assert_eq!(of(&work, Some(1)), [], "zero work has no cost per unit");
        work.record(at(20), "steps", &WorkGroup::default(), 4);
        let count = ("phasemeter.work.steps".to_owned(), 4.0);
        let each = ("phasemeter.work.cost_per.steps".to_owned(), 0.5);
        assert_eq!(of(&work, Some(2_000_000_000)), [count.clone(), each]);
        assert_eq!(of(&work, None), [count], "without a price");
    }
}
