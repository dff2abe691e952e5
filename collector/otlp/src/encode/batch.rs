//! The points of several GPUs in one request.

use std::collections::BTreeMap;

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
use super::metric_selection::MetricSelection;
use super::settings::TemporalityPreference;
use super::values::{SCHEMA, scope};
use crate::names::SCHEMA_URL;

/// The number of points that fill a request: typically an eighth of a mebibyte when encoded, and many times
/// that in memory before.
pub(super) const MAX_POINTS: usize = 1_024;

/// Number points by metric, in order of first appearance.
#[derive(Debug, Default)]
struct Numbers(Vec<(&'static Instrument, Vec<NumberDataPoint>)>);

impl Numbers {
    /// Adds a point of a metric.
    fn add(&mut self, instrument: &'static Instrument, point: NumberDataPoint) {
        match self.0.iter_mut().find(|(known, _)| known.name == instrument.name) {
            Some((_, points)) => points.push(point),
            None => self.0.push((instrument, vec![point])),
        }
    }

    /// Adds the points of others.
    fn append(&mut self, other: Self) {
        for (instrument, points) in other.0 {
            points.into_iter().for_each(|point| self.add(instrument, point));
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
                Kind::Gauge | Kind::Histogram => Data::Gauge(Gauge { data_points }),
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
    metrics: MetricSelection,
    /// Points of the resource of each host, by its number.
    hosts: BTreeMap<usize, Numbers>,
    /// Points of the workload resource.
    workload: Numbers,
    /// Utilization with explicit buckets.
    pub(super) explicit: Vec<HistogramDataPoint>,
    /// Utilization with exponential buckets.
    pub(super) exponential: Vec<ExponentialHistogramDataPoint>,
}

impl Batch {
    /// No points yet, of these metrics only.
    pub(super) fn new(metrics: MetricSelection) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Takes all points.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.metrics))
    }

    /// Whether points of these streams are kept.
    pub(super) fn has(&self, streams: &Instrument) -> bool {
        self.metrics.has(streams)
    }

    /// Adds a point of the hardware of a host; of none, if another program exports it.
    pub(super) fn add_hardware(
        &mut self,
        host: Option<usize>,
        instrument: &'static Instrument,
        point: NumberDataPoint,
    ) {
        if let Some(host) = host.filter(|_| self.has(instrument)) {
            self.hosts.entry(host).or_default().add(instrument, point);
        }
    }

    /// Adds a point of the workload.
    pub(super) fn add_workload(&mut self, instrument: &'static Instrument, point: NumberDataPoint) {
        if self.has(instrument) {
            self.workload.add(instrument, point);
        }
    }

    /// The number of points.
    pub(super) fn len(&self) -> usize {
        let hardware: usize = self.hosts.values().map(Numbers::len).sum();
        hardware + self.workload.len() + self.explicit.len() + self.exponential.len()
    }

    fn numbers(&mut self) -> impl Iterator<Item = &mut Numbers> {
        self.hosts.values_mut().chain([&mut self.workload])
    }

    /// Converts totals to the preferred temporality.
    pub(super) fn convert(&mut self, temporality: TemporalityPreference, last: &mut LastTotals) {
        if temporality.counters() == AggregationTemporality::Delta {
            for (metric, point) in self.numbers().flat_map(Numbers::counters) {
                last.convert_number(metric, point);
            }
        }
        if temporality.histograms() == AggregationTemporality::Delta {
            self.explicit.iter_mut().for_each(|point| last.convert_explicit(point));
            self.exponential.iter_mut().for_each(|point| last.convert_exponential(point));
        }
    }

    /// The totals of all streams.
    pub(super) fn totals(&mut self) -> LastTotals {
        let mut totals = LastTotals::default();
        for (metric, point) in self.numbers().flat_map(Numbers::counters) {
            totals.record_number(metric, point);
        }
        self.explicit.iter().for_each(|point| totals.record_explicit(point));
        self.exponential.iter().for_each(|point| totals.record_exponential(point));
        totals
    }

    /// Subtracts earlier totals of the same streams.
    pub(super) fn subtract(&mut self, before: &LastTotals) {
        for (metric, point) in self.numbers().flat_map(Numbers::counters) {
            before.subtract_from_number(metric, point);
        }
        self.explicit.iter_mut().for_each(|point| before.subtract_from_explicit(point));
        self.exponential.iter_mut().for_each(|point| before.subtract_from_exponential(point));
    }

    /// Adds the points of another batch.
    pub(super) fn append(&mut self, other: Self) {
        for (host, numbers) in other.hosts {
            self.hosts.entry(host).or_default().append(numbers);
        }
        self.workload.append(other.workload);
        self.explicit.extend(other.explicit);
        self.exponential.extend(other.exponential);
    }

    /// The points of the workload.
    #[cfg(test)]
    pub(super) fn workload_points(&self) -> impl Iterator<Item = &NumberDataPoint> {
        self.workload.0.iter().flat_map(|(_, points)| points)
    }

    /// A batch without points, of the same metrics.
    pub(super) fn like(&self) -> Self {
        Self::new(self.metrics)
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
        let numbers = self.hosts.values_mut().chain([&mut self.workload]);
        let numbers = numbers.flat_map(|numbers| &mut numbers.0);
        let numbers = numbers.flat_map(|(_, points)| points);
        let histograms =
            times!(self.explicit.iter_mut()).chain(times!(self.exponential.iter_mut()));
        times!(numbers).chain(histograms)
    }

    /// Converts the batch, whose points have this temporality, to a request; `None` if it is empty. `hosts` are
    /// the resources of hosts, by their numbers.
    pub(super) fn into_request(
        self,
        hosts: &[Resource],
        workload: &Resource,
        temporality: TemporalityPreference,
    ) -> Option<ExportMetricsServiceRequest> {
        let Instrument { name, unit, description, .. } = UTILIZATION;
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
        let of_workload: Vec<_> = explicit.into_iter().chain(exponential).chain(numbers).collect();
        let mut resource_metrics = Vec::new();
        for (host, numbers) in self.hosts {
            let metrics = numbers.into_metrics(counters);
            let (conventions, own): (Vec<_>, Vec<_>) =
                metrics.partition(|metric| metric.name.starts_with("hw."));
            let scopes = [(conventions, SCHEMA), (own, SCHEMA_URL)];
            resource_metrics.extend(of_resource(hosts.get(host), SCHEMA, scopes));
        }
        // The workload's attributes are as given, by any schema.
        resource_metrics.extend(of_resource(Some(workload), "", [(of_workload, SCHEMA_URL)]));
        (!resource_metrics.is_empty()).then_some(ExportMetricsServiceRequest { resource_metrics })
    }
}

/// The metrics of a resource, in a scope per schema; `None` if there are none.
fn of_resource<const N: usize>(
    resource: Option<&Resource>,
    resource_schema: &str,
    scopes: [(Vec<Metric>, &str); N],
) -> Option<ResourceMetrics> {
    let scopes = scopes.into_iter().filter(|(metrics, _)| !metrics.is_empty());
    let scope_metrics: Vec<_> = scopes
        .map(|(metrics, schema)| ScopeMetrics {
            scope: Some(scope()),
            metrics,
            schema_url: schema.to_owned(),
        })
        .collect();
    (!scope_metrics.is_empty()).then(|| ResourceMetrics {
        resource: resource.cloned(),
        schema_url: resource_schema.to_owned(),
        scope_metrics,
    })
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
