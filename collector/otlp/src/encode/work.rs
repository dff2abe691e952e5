//! Points of work done, and of dollars per unit of work.
//!
//! Must not depend on the sender of work.

use std::collections::{BTreeMap, VecDeque};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Timestamp;

use super::batch::Batch;
use super::instruments::{WORK, WORK_COST};
use super::values::{Start, double, integer, number, text, whole};
use crate::names::attribute;

/// Reports that wait for the readings of their time. Beyond it the oldest counts early.
const CAPACITY: usize = 4_096;

/// Work done, between two exports.
#[derive(Debug, Default)]
pub(super) struct WorkPoints {
    /// In order of arrival.
    waiting: VecDeque<(Timestamp, &'static str, u64)>,
    /// Before the last boundary, by unit.
    totals: BTreeMap<&'static str, Total>,
    /// When the sums start.
    start: Option<Timestamp>,
    /// Whether it is not known what all of the work costs.
    is_cost_partial: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    /// At the last export that had any of it.
    exported: u64,
    cost: NanoUsd,
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
    pub(super) fn record(&mut self, at: Timestamp, unit: &'static str, count: u64) {
        match self.waiting.back_mut() {
            Some((last, same, sum)) if *last == at && *same == unit => {
                *sum = sum.saturating_add(count);
            }
            _ => self.waiting.push_back((at, unit, count)),
        }
        if self.waiting.len() > CAPACITY
            && let Some((_, unit, count)) = self.waiting.pop_front()
        {
            self.count(unit, count);
        }
    }

    fn count(&mut self, unit: &'static str, count: u64) {
        let total = self.totals.entry(unit).or_default();
        total.count = total.count.saturating_add(count);
    }

    /// Adds the points at a boundary, up to which all GPUs together cost `cost`. The cost per
    /// unit is absent if no work was done since the last export.
    pub(super) fn add_points(&mut self, at: Timestamp, cost: Option<NanoUsd>, batch: &mut Batch) {
        let cost = cost.filter(|_| !self.is_cost_partial);
        let waiting = std::mem::take(&mut self.waiting);
        for (done, unit, count) in waiting {
            if done <= at {
                self.count(unit, count);
            } else {
                self.waiting.push_back((done, unit, count));
            }
        }
        let Some(start) = self.start else { return };
        let start = Start::at(start);
        for (unit, total) in &mut self.totals {
            let attributes = vec![text(attribute::WORK_UNIT, *unit)];
            batch.add_workload(&WORK, integer(start, attributes.clone(), total.count));
            let done = total.count - total.exported;
            if done == 0 {
                continue;
            }
            if let Some(cost) = cost {
                let each = (cost - total.cost).as_f64() / done as f64;
                batch.add_workload(&WORK_COST, double(Start::NONE, attributes, each));
                total.cost = cost;
            }
            total.exported = total.count;
        }
    }

    /// The attributes of the experiment's span: all work, and of its `cost` the part per unit.
    pub(super) fn attributes(&self, cost: Option<NanoUsd>) -> Vec<KeyValue> {
        let cost = cost.filter(|_| !self.is_cost_partial);
        let mut counts: BTreeMap<&str, u64> =
            self.totals.iter().map(|(unit, total)| (*unit, total.count)).collect();
        for (_, unit, count) in &self.waiting {
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
        work.record(at(10), "steps", 3);
        work.record(at(70), "steps", 5);
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
        work.record(at(130), "steps", 1);
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
        work.record(at(10), "steps", 0);
        assert_eq!(of(&work, Some(1)), [], "zero work has no cost per unit");
        work.record(at(20), "steps", 4);
        let count = ("phasemeter.work.steps".to_owned(), 4.0);
        let each = ("phasemeter.work.cost_per.steps".to_owned(), 0.5);
        assert_eq!(of(&work, Some(2_000_000_000)), [count.clone(), each]);
        assert_eq!(of(&work, None), [count], "without a price");
    }
}
