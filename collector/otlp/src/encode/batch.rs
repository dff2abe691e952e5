//! The points of several GPUs in one request.
//!
//! Must not depend on where points come from.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge,
    Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallTime;

use super::delta::LastTotals;
use super::instruments::{Instrument, Kind, UTILIZATION};
use super::settings::TemporalityPreference;
use super::values::{SCHEMA, scope};
use crate::names::SCHEMA_URL;

/// The number of points that fill a request: typically an eighth of a mebibyte when encoded, and many times
/// that in memory before.
pub(super) const MAX_POINTS: usize = 1_024;

/// Number points by metric, in order of first appearance.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<(&'static Instrument, Vec<NumberDataPoint>)>);

impl Numbers {
    /// Adds a point of a metric.
    pub(super) fn add(&mut self, instrument: &'static Instrument, point: NumberDataPoint) {
        match self.0.iter_mut().find(|(known, _)| known.name == instrument.name) {
            Some((_, points)) => points.push(point),
            None => self.0.push((instrument, vec![point])),
        }
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, points)| points.len()).sum()
    }

    /// The points of each counter.
    fn counters(&mut self) -> impl Iterator<Item = (&'static str, &mut NumberDataPoint)> {
        let counters = self.0.iter_mut().filter(|(it, _)| it.kind == Kind::Counter);
        counters.flat_map(|(it, points)| points.iter_mut().map(|point| (it.name, point)))
    }

    fn into_metrics(self, counters: AggregationTemporality) -> impl Iterator<Item = Metric> {
        self.0.into_iter().map(move |(instrument, data_points)| {
            let sum = |data_points, is_monotonic, temporality| Sum {
                data_points,
                aggregation_temporality: temporality as i32,
                is_monotonic,
            };
            let cumulative = AggregationTemporality::Cumulative;
            let data = match instrument.kind {
                Kind::Gauge => Data::Gauge(Gauge { data_points }),
                Kind::Counter => Data::Sum(sum(data_points, true, counters)),
                Kind::UpDownCounter => Data::Sum(sum(data_points, false, cumulative)),
            };
            metric(instrument.name, instrument.unit, instrument.description, data)
        })
    }
}

/// The points of several GPUs, at most one per stream.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Points of the hardware resource.
    pub(super) hardware: Numbers,
    /// Points of the workload resource.
    pub(super) workload: Numbers,
    /// Utilization with explicit buckets.
    pub(super) explicit: Vec<HistogramDataPoint>,
    /// Utilization with exponential buckets.
    pub(super) exponential: Vec<ExponentialHistogramDataPoint>,
}

impl Batch {
    /// The number of points.
    pub(super) fn len(&self) -> usize {
        self.hardware.len() + self.workload.len() + self.explicit.len() + self.exponential.len()
    }

    /// Converts totals to the preferred temporality.
    pub(super) fn convert(&mut self, temporality: TemporalityPreference, last: &mut LastTotals) {
        if temporality.counters() == AggregationTemporality::Delta {
            for (metric, point) in self.hardware.counters().chain(self.workload.counters()) {
                last.convert_number(metric, point);
            }
        }
        if temporality.histograms() == AggregationTemporality::Delta {
            self.explicit.iter_mut().for_each(|point| last.convert_explicit(point));
            self.exponential.iter_mut().for_each(|point| last.convert_exponential(point));
        }
    }

    /// Sets the time of all points, which is that of their round.
    pub(super) fn set_time(&mut self, at: Timestamp) {
        self.times().for_each(|point| *point.time = at.as_nanos());
    }

    /// Converts the times of all points to wall time.
    pub(super) fn label(&mut self, wall: &WallTime) {
        if wall.has_stepped() {
            for PointTimes { start, time, exemplars } in self.times() {
                label(start, time, wall);
                label_exemplars(exemplars, wall);
            }
        }
    }

    /// The times of all points.
    fn times(&mut self) -> impl Iterator<Item = PointTimes<'_>> {
        macro_rules! times {
            ($points:expr) => {
                $points.map(|point| PointTimes {
                    start: &mut point.start_time_unix_nano,
                    time: &mut point.time_unix_nano,
                    exemplars: &mut point.exemplars,
                })
            };
        }
        let numbers = self.hardware.0.iter_mut().chain(&mut self.workload.0);
        let numbers = numbers.flat_map(|(_, points)| points);
        let histograms =
            times!(self.explicit.iter_mut()).chain(times!(self.exponential.iter_mut()));
        times!(numbers).chain(histograms)
    }

    /// Converts the batch, whose points have this temporality, to a request; `None` if it is empty.
    pub(super) fn into_request(
        self,
        hardware: &Resource,
        workload: &Resource,
        temporality: TemporalityPreference,
    ) -> Option<ExportMetricsServiceRequest> {
        let (name, unit, description) = UTILIZATION;
        let aggregation_temporality = temporality.histograms() as i32;
        let counters = temporality.counters();
        let explicit = (!self.explicit.is_empty()).then(|| {
            let histogram = Histogram { data_points: self.explicit, aggregation_temporality };
            metric(name, unit, description, Data::Histogram(histogram))
        });
        let exponential = (!self.exponential.is_empty()).then(|| {
            let data_points = self.exponential;
            let histogram = ExponentialHistogram { data_points, aggregation_temporality };
            metric(name, unit, description, Data::ExponentialHistogram(histogram))
        });
        let numbers = self.workload.into_metrics(counters);
        let workload_metrics = explicit.into_iter().chain(exponential).chain(numbers).collect();
        // The workload's attributes are as given, by any schema.
        let resource_metrics: Vec<_> = [
            (hardware, SCHEMA, SCHEMA, self.hardware.into_metrics(counters).collect()),
            (workload, "", SCHEMA_URL, workload_metrics),
        ]
        .into_iter()
        .filter(|(.., metrics): &(_, _, _, Vec<Metric>)| !metrics.is_empty())
        .map(|(resource, resource_schema, schema, metrics)| ResourceMetrics {
            resource: Some(resource.clone()),
            schema_url: resource_schema.to_owned(),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics,
                schema_url: schema.to_owned(),
            }],
        })
        .collect();
        (!resource_metrics.is_empty()).then_some(ExportMetricsServiceRequest { resource_metrics })
    }
}

/// The times of a point, in nanoseconds.
struct PointTimes<'a> {
    start: &'a mut u64,
    time: &'a mut u64,
    exemplars: &'a mut Vec<Exemplar>,
}

fn metric(name: &str, unit: &str, description: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// A start of zero means that there is none.
fn label(start: &mut u64, time: &mut u64, wall: &WallTime) {
    let instant = |nanos| Timestamp::from_nanos(nanos).unwrap_or(Timestamp::LAST);
    if *start > 0 {
        *start = wall.sum_start_label(instant(*start), instant(*time)).as_nanos();
    }
    *time = wall.end_label(instant(*time)).as_nanos();
}

fn label_exemplars(exemplars: &mut [Exemplar], wall: &WallTime) {
    for exemplar in exemplars {
        let at = Timestamp::from_nanos(exemplar.time_unix_nano).unwrap_or(Timestamp::LAST);
        exemplar.time_unix_nano = wall.start_label(at).as_nanos();
    }
}
