//! The hand-over of a GPU's metrics between two programs that meter it: which of its time this one exports.
//!
//! It meters all the time. What it exports after it has taken the metrics over begins there, as sums with a start of
//! their own: their totals at that instant are subtracted.

use std::collections::{BTreeMap, VecDeque};

use phasemeter_meter::units::Timestamp;

use super::batch::Batch;
use super::delta::LastTotals;

/// Maximum number of instants whose totals are kept: the last exports of an agent.
const MAX_KEPT: usize = 4;

/// What happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The totals are kept: the metrics may be taken over from there, later.
    Keep,
    /// The other program exports the metrics from there on.
    Leave,
    /// This one does.
    Take,
}

/// Which time of a GPU is exported. Unless another program meters it too, that is all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct HandOver {
    is_left: bool,
    planned: BTreeMap<Timestamp, Change>,
    /// The totals at the newest instants from which the metrics may be taken over.
    kept: VecDeque<(Timestamp, LastTotals)>,
    /// The totals that are subtracted.
    baseline: Option<LastTotals>,
}

impl HandOver {
    /// Whether another program exports the metrics now.
    pub(super) const fn is_left(&self) -> bool {
        self.is_left
    }

    /// Whether there was no other program so far.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_left && self.planned.is_empty() && self.baseline.is_none()
    }

    /// Plans what happens at a boundary that is not reached yet.
    pub(super) fn plan(&mut self, at: Timestamp, change: Change) {
        let planned = self.planned.entry(at).or_insert(change);
        if change != Change::Keep {
            *planned = change;
        }
    }

    /// Leaves the metrics now.
    pub(super) fn leave(&mut self) {
        (self.is_left, self.baseline) = (true, None);
    }

    /// Takes the metrics over from the first instant at or after this one whose totals are kept, and returns it.
    pub(super) fn take_from(&mut self, at: Timestamp) -> Option<Timestamp> {
        let place = self.kept.iter().position(|(kept, _)| *kept >= at)?;
        let (from, totals) = self.kept.remove(place)?;
        (self.is_left, self.baseline) = (false, Some(totals));
        Some(from)
    }

    /// The boundary `at` is reached, with these points: those to be exported, and the new start of the sums if it
    /// changes there.
    pub(super) fn reach(&mut self, at: Timestamp, mut points: Batch) -> (Batch, Option<Timestamp>) {
        let later = self.planned.split_off(&at);
        // What was planned before is void: the boundary was not emitted.
        self.planned = later;
        let change = self.planned.remove(&at);
        let totals = change.map(|_| points.totals());
        let exported = if self.is_left {
            points.take();
            points
        } else {
            self.baseline.iter().for_each(|baseline| points.subtract(baseline));
            points
        };
        match (change, totals) {
            (Some(Change::Take), Some(totals)) => {
                (self.is_left, self.baseline) = (false, Some(totals));
                return (exported, Some(at));
            }
            (Some(change), Some(totals)) => {
                if change == Change::Leave {
                    self.leave();
                }
                self.kept.push_back((at, totals));
                if self.kept.len() > MAX_KEPT {
                    self.kept.pop_front();
                }
            }
            _ => {}
        }
        (exported, None)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

    use super::super::instruments::{COST, HW_POWER};
    use super::super::metric_selection::MetricSelection;
    use super::super::values::{Start, double, text};
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    /// A sum of two streams and a gauge.
    fn points(value: f64) -> Batch {
        let mut batch = Batch::new(MetricSelection::default());
        for stream in ["a", "b"] {
            let attributes = vec![text("stream", stream)];
            batch.add_workload(&COST, double(Start::NONE, attributes, value));
        }
        batch.add_workload(&HW_POWER, double(Start::NONE, vec![], value));
        batch
    }

    /// The sums and the gauge that are exported at a boundary, and the new start.
    fn reach(of: &mut HandOver, seconds: u64, value: f64) -> (Vec<f64>, Option<Timestamp>) {
        let (exported, first) = of.reach(at(seconds), points(value));
        let value = |point: &NumberDataPoint| match point.value {
            Some(Value::AsDouble(value)) => value,
            _ => panic!("{point:?}"),
        };
        (exported.workload_points().map(value).collect(), first)
    }

    /// Guarantee: sums end where they are left, begin where they are taken over, and gauges have their values.
    #[test]
    fn sums_after_a_hand_over_begin_there() {
        let mut of = HandOver::default();
        assert!(of.is_unused());
        of.plan(at(20), Change::Leave);
        assert_eq!(reach(&mut of, 10, 1.0), (vec![1.0, 1.0, 1.0], None));
        assert_eq!(reach(&mut of, 20, 2.0), (vec![2.0, 2.0, 2.0], None));
        assert!(of.is_left());
        of.plan(at(40), Change::Keep);
        assert_eq!(reach(&mut of, 30, 3.0), (vec![], None));
        assert_eq!(reach(&mut of, 40, 4.0), (vec![], None));
        assert_eq!(reach(&mut of, 50, 5.0), (vec![], None));
        // The past is taken over from what is kept, else from the next instant that is.
        assert_eq!(of.clone().take_from(at(41)), None);
        assert_eq!(of.clone().take_from(at(15)), Some(at(20)));
        assert_eq!(of.take_from(at(40)), Some(at(40)));
        assert_eq!(reach(&mut of, 60, 6.5), (vec![2.5, 2.5, 6.5], None));
        // Left and taken over at one instant, which is not reached yet.
        of.plan(at(70), Change::Leave);
        of.plan(at(70), Change::Keep);
        of.plan(at(70), Change::Take);
        assert_eq!(reach(&mut of, 70, 7.0), (vec![3.0, 3.0, 7.0], Some(at(70))));
        assert_eq!(reach(&mut of, 80, 8.0), (vec![1.0, 1.0, 8.0], None));
    }

    #[test]
    fn kept_totals_are_limited() {
        let mut of = HandOver::default();
        of.leave();
        for second in 0..100 {
            of.plan(at(second), Change::Keep);
            reach(&mut of, second, 1.0);
        }
        assert_eq!((of.kept.len(), of.planned.len()), (MAX_KEPT, 0));
    }
}
