//! The number points of a metrics request, with what names them.
//!
//! Must not depend on what a metric means.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use phasemeter_meter::units::Timestamp;

use super::attributes::find_text;

/// Set if a point has no value (`DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`).
const NO_VALUE: u32 = 1;

/// A point of a gauge or a sum.
#[derive(Clone, Copy, Debug)]
pub struct NumberPoint<'a> {
    /// The name of the instrumentation scope.
    pub scope: &'a str,
    /// The name of the metric.
    pub metric: &'a str,
    /// When its sum began; the epoch if it is none.
    pub start: Timestamp,
    /// When it was measured.
    pub at: Timestamp,
    /// The value; not a number if none was recorded, which ends the value before it.
    pub number: f64,
    attributes: &'a [KeyValue],
    resource: &'a [KeyValue],
}

impl<'a> NumberPoint<'a> {
    /// A text attribute of the point, else of its resource.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'a str> {
        find_text(self.attributes, name).or_else(|| self.resource_label(name))
    }

    /// A text attribute of the resource.
    #[must_use]
    pub fn resource_label(&self, name: &str) -> Option<&'a str> {
        find_text(self.resource, name)
    }
}

/// Visits the points of the metrics that `is_wanted`, by scope and metric.
pub fn number_points<'a>(
    request: &'a ExportMetricsServiceRequest,
    is_wanted: impl Fn(&str, &str) -> bool,
    mut visit: impl FnMut(NumberPoint<'a>),
) {
    for group in &request.resource_metrics {
        let resource = group.resource.as_ref().map_or(&[][..], |it| &it.attributes);
        for scope_metrics in &group.scope_metrics {
            let scope = scope_metrics.scope.as_ref().map_or("", |scope| &scope.name);
            for metric in scope_metrics.metrics.iter().filter(|it| is_wanted(scope, &it.name)) {
                let points = match &metric.data {
                    Some(Data::Gauge(gauge)) => &gauge.data_points,
                    Some(Data::Sum(sum)) => &sum.data_points,
                    _ => continue,
                };
                for point in points {
                    if let Some((start, at, number)) = values(point) {
                        visit(NumberPoint {
                            scope,
                            metric: &metric.name,
                            start,
                            at,
                            number,
                            attributes: &point.attributes,
                            resource,
                        });
                    }
                }
            }
        }
    }
}

fn values(point: &NumberDataPoint) -> Option<(Timestamp, Timestamp, f64)> {
    let is_recorded = point.flags & NO_VALUE == 0;
    let number = if is_recorded { number(point)? } else { f64::NAN };
    let start = Timestamp::from_nanos(point.start_time_unix_nano)?;
    let at = Timestamp::from_nanos(point.time_unix_nano)?;
    (at > Timestamp::EPOCH).then_some((start, at, number))
}

/// The value of a point.
#[expect(clippy::cast_precision_loss, reason = "counters of 2^53 and more are sentinels")]
pub(super) fn number(point: &NumberDataPoint) -> Option<f64> {
    Some(match point.value? {
        number_data_point::Value::AsDouble(number) => number,
        number_data_point::Value::AsInt(number) => number as f64,
    })
}
