//! The points of several GPUs in one request.
//!
//! Must not depend on where points come from.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::instruments::{HARDWARE_SCHEMA, Instrument, Kind, UTILIZATION};
use super::values::scope;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

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

    fn into_metrics(self) -> impl Iterator<Item = Metric> {
        self.0.into_iter().map(|(instrument, data_points)| {
            let sum = |data_points, is_monotonic| Sum {
                data_points,
                aggregation_temporality: CUMULATIVE,
                is_monotonic,
            };
            let data = match instrument.kind {
                Kind::Gauge => Data::Gauge(Gauge { data_points }),
                Kind::Counter => Data::Sum(sum(data_points, true)),
                Kind::UpDownCounter => Data::Sum(sum(data_points, false)),
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
    /// Converts the batch to a request; `None` if it is empty.
    pub(super) fn into_request(
        self,
        host: &Resource,
        workload: &Resource,
    ) -> Option<ExportMetricsServiceRequest> {
        let (name, unit, description) = UTILIZATION;
        let aggregation_temporality = CUMULATIVE;
        let explicit = (!self.explicit.is_empty()).then(|| {
            let histogram = Histogram { data_points: self.explicit, aggregation_temporality };
            metric(name, unit, description, Data::Histogram(histogram))
        });
        let exponential = (!self.exponential.is_empty()).then(|| {
            let data_points = self.exponential;
            let histogram = ExponentialHistogram { data_points, aggregation_temporality };
            metric(name, unit, description, Data::ExponentialHistogram(histogram))
        });
        let numbers = self.workload.into_metrics();
        let workload_metrics = explicit.into_iter().chain(exponential).chain(numbers).collect();
        let resource_metrics: Vec<_> = [
            (host, HARDWARE_SCHEMA, self.hardware.into_metrics().collect()),
            (workload, "", workload_metrics),
        ]
        .into_iter()
        .filter(|(_, _, metrics): &(_, _, Vec<Metric>)| !metrics.is_empty())
        .map(|(resource, schema, metrics)| ResourceMetrics {
            resource: Some(resource.clone()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics,
                schema_url: schema.to_owned(),
            }],
            ..ResourceMetrics::default()
        })
        .collect();
        (!resource_metrics.is_empty()).then_some(ExportMetricsServiceRequest { resource_metrics })
    }
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
