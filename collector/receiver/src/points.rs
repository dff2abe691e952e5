//! The number points of a metrics request, with what names them.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, number_data_point};
use phasemeter_meter::instrument::{Instrument, Temporality};
use phasemeter_meter::units::Timestamp;

use super::attributes::{Attributes, find_label};

/// Set if a point has no value (`DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`).
const NO_VALUE: u32 = 1;

/// A point of a metric.
#[derive(Clone, Copy, Debug)]
pub struct NumberPoint<'a> {
    /// The name of the instrumentation scope.
    pub scope: &'a str,
    /// The name of the metric.
    pub metric: &'a str,
    /// What it is declared as.
    pub instrument: Instrument,
    /// When its sum began; the epoch if it is none.
    pub start: Timestamp,
    /// When it was measured.
    pub at: Timestamp,
    /// The value; not a number if none was recorded, which ends the value before it, and for points of histograms
    /// and summaries.
    pub number: f64,
    attributes: &'a [KeyValue],
    resource: &'a Attributes<'a>,
}

impl<'a> NumberPoint<'a> {
    /// A text attribute of the point, else of its resource. One that is longer than
    /// [`MAX_LABEL`](phasemeter_meter::label_filter::MAX_LABEL) counts as absent.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'a str> {
        find_label(self.attributes, name).or_else(|| self.resource_label(name))
    }

    /// A text attribute of the resource, of the same length.
    #[must_use]
    pub fn resource_label(&self, name: &str) -> Option<&'a str> {
        self.resource.label(name)
    }
}

/// Visits the points of the metrics that `is_wanted`, by scope and metric.
pub fn number_points(
    request: &ExportMetricsServiceRequest,
    is_wanted: impl Fn(&str, &str) -> bool,
    mut visit: impl FnMut(NumberPoint<'_>),
) {
    for group in &request.resource_metrics {
        let resource = group.resource.as_ref().map_or(&[][..], |it| &it.attributes);
        let resource = &Attributes::new(resource);
        for scope_metrics in &group.scope_metrics {
            let scope = scope_metrics.scope.as_ref().map_or("", |scope| &scope.name);
            for metric in scope_metrics.metrics.iter().filter(|it| is_wanted(scope, &it.name)) {
                any_points(metric, |point| {
                    let AnyPoint { instrument, attributes, start, at, .. } = point;
                    if let Some((at, number)) = at.zip(point.number()) {
                        let metric = &metric.name;
                        let start = start.unwrap_or_default();
                        visit(NumberPoint {
                            scope,
                            metric,
                            instrument,
                            start,
                            at,
                            number,
                            attributes,
                            resource,
                        });
                    }
                });
            }
        }
    }
}

/// A point of any metric.
pub(super) struct AnyPoint<'a> {
    pub(super) instrument: Instrument,
    pub(super) attributes: &'a [KeyValue],
    /// `None` if it is not set, here and below.
    pub(super) start: Option<Timestamp>,
    pub(super) at: Option<Timestamp>,
    pub(super) is_recorded: bool,
    /// The number, or the sum of a histogram or a summary.
    pub(super) value: Option<f64>,
}

impl AnyPoint<'_> {
    /// The number of a gauge or a sum; not a number if none was recorded, and for other instruments.
    fn number(&self) -> Option<f64> {
        match self.instrument {
            Instrument::Histogram { .. } | Instrument::Summary => Some(f64::NAN),
            _ if self.is_recorded => self.value,
            _ => Some(f64::NAN),
        }
    }
}

/// Visits the points of a metric.
pub(super) fn any_points<'a>(metric: &'a Metric, mut visit: impl FnMut(AnyPoint<'a>)) {
    let mut point =
        |instrument, attributes: &'a [KeyValue], times: (u64, u64), flags: u32, value| {
            let (start, at) = (time(times.0), time(times.1));
            let is_recorded = flags & NO_VALUE == 0;
            visit(AnyPoint { instrument, attributes, start, at, is_recorded, value });
        };
    let temporality = Temporality::from_otlp;
    match &metric.data {
        Some(Data::Gauge(gauge)) => {
            for it in &gauge.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                point(Instrument::Gauge, &it.attributes, times, it.flags, number(it));
            }
        }
        Some(Data::Sum(sum)) => {
            let temporality = temporality(sum.aggregation_temporality);
            let instrument = Instrument::Sum { is_monotonic: sum.is_monotonic, temporality };
            for it in &sum.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                point(instrument, &it.attributes, times, it.flags, number(it));
            }
        }
        Some(Data::Histogram(histogram)) => {
            let temporality = temporality(histogram.aggregation_temporality);
            for it in &histogram.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                let instrument = Instrument::Histogram { temporality };
                point(instrument, &it.attributes, times, it.flags, it.sum);
            }
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            let temporality = temporality(histogram.aggregation_temporality);
            for it in &histogram.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                let instrument = Instrument::Histogram { temporality };
                point(instrument, &it.attributes, times, it.flags, it.sum);
            }
        }
        Some(Data::Summary(summary)) => {
            for it in &summary.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                point(Instrument::Summary, &it.attributes, times, it.flags, Some(it.sum));
            }
        }
        None => {}
    }
}

/// A time; `None` if it is not set, or out of range.
fn time(nanos: u64) -> Option<Timestamp> {
    Timestamp::from_nanos(nanos).filter(|at| *at > Timestamp::EPOCH)
}

/// The value of a point.
#[expect(clippy::cast_precision_loss, reason = "counters of 2^53 and more are sentinels")]
fn number(point: &NumberDataPoint) -> Option<f64> {
    Some(match point.value? {
        number_data_point::Value::AsDouble(number) => number,
        number_data_point::Value::AsInt(number) => number as f64,
    })
}
