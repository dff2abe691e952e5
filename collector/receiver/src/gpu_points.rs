//! Points of what GPUs cost, as other meters send them: visited, and left out of a request one by one.

use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_meter::units::Timestamp;
use prost::Message;

use super::attributes::find_label;
use super::filter::{Remaining, filter};
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::names::{attribute, metric};
use phasemeter_otlp::wire::{Field, fields};

/// The metrics that two meters of a GPU must not both send.
const METRICS: [&str; 3] = [metric::GPU_COST, metric::GPU_TIME, metric::GPU_WASTE];

/// The tag of the resources of a request, of the resource in such a group, of its name in a metric, and of the points of
/// a sum.
const FIRST: u32 = 1;

/// The tag of the scopes of a resource, and of the metrics of a scope.
const SECOND: u32 = 2;

/// The tag of a metric's sum.
const SUM: u32 = 7;

/// A point of a GPU's time, cost or waste.
#[derive(Clone, Copy, Debug)]
pub struct GpuPoint<'a> {
    /// The role of its sender: `agent`, `sidecar` or `gateway`.
    pub role: &'a str,
    /// The ID of the GPU.
    pub gpu: &'a str,
    /// When its sum began.
    pub start: Timestamp,
    /// When it ends.
    pub at: Timestamp,
}

/// What is left of a request of metrics without the points that `is_dropped`; `None` if nothing is. Senders without a role
/// are not visited, and what is left has the bytes that arrived.
#[must_use]
pub fn drop_gpu_points(
    request: EncodedRequest,
    is_dropped: &mut dyn FnMut(&GpuPoint<'_>) -> bool,
) -> Option<EncodedRequest> {
    let mut dropped = 0;
    let remaining = filter(request.body(), FIRST, &mut |group| {
        let Some(role) = role(group) else { return Some(Remaining::All) };
        filter(group, SECOND, &mut |scope| {
            filter(scope, SECOND, &mut |metric| {
                if !is_of_gpu(metric) {
                    return Some(Remaining::All);
                }
                filter(metric, SUM, &mut |sum| {
                    filter(sum, FIRST, &mut |point| {
                        let is_dropped = is_dropped_point(&role, point, is_dropped);
                        dropped += u64::from(is_dropped);
                        Some(if is_dropped { Remaining::Nothing } else { Remaining::All })
                    })
                })
            })
        })
    });
    let items = request.items().saturating_sub(dropped);
    // An accepted request is not malformed.
    remaining.unwrap_or(Remaining::All).of(request, items)
}

/// The role of a resource; `None` without one.
fn role(group: &[u8]) -> Option<String> {
    let resource = first(group)?;
    // Most resources have none, and are not decoded.
    let name = attribute::ROLE.as_bytes();
    resource.windows(name.len()).find(|part| *part == name)?;
    let Resource { attributes, .. } = Resource::decode(resource).ok()?;
    find_label(&attributes, attribute::ROLE).map(str::to_owned)
}

fn is_of_gpu(metric: &[u8]) -> bool {
    first(metric).is_some_and(|name| METRICS.iter().any(|it| it.as_bytes() == name))
}

fn is_dropped_point(
    role: &str,
    point: &[u8],
    is_dropped: &mut dyn FnMut(&GpuPoint<'_>) -> bool,
) -> bool {
    let Ok(point) = NumberDataPoint::decode(point) else { return false };
    let times = [point.start_time_unix_nano, point.time_unix_nano].map(Timestamp::from_nanos);
    let ([Some(start), Some(at)], Some(gpu)) = (times, find_label(&point.attributes, "hw.id"))
    else {
        return false;
    };
    is_dropped(&GpuPoint { role, gpu, start, at })
}

/// The value of the first field.
fn first(message: &[u8]) -> Option<&[u8]> {
    let is_first = |field: Field<'_>| field.tag == FIRST;
    let mut fields = fields(message).map_while(|field| field);
    fields.find(|field| is_first(*field)).and_then(|field| field.value)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics, Sum};

    use super::*;
    use phasemeter_otlp::Signal;

    fn text(key: &str, value: &str) -> KeyValue {
        let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    /// A sender's time and cost of these GPUs, and another metric of each.
    fn sent(role: Option<&str>, gpus: &[&str]) -> ResourceMetrics {
        let points = gpus.iter().map(|gpu| NumberDataPoint {
            attributes: vec![text("hw.id", gpu)],
            start_time_unix_nano: 5,
            time_unix_nano: 60,
            ..NumberDataPoint::default()
        });
        let points: Vec<_> = points.collect();
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            data: Some(Data::Sum(Sum { data_points: points.clone(), ..Sum::default() })),
            ..Metric::default()
        };
        let names = [metric::GPU_TIME, metric::GPU_COST, metric::GPU_EFFECTIVE_TIME];
        let metrics = names.map(metric).to_vec();
        let attributes = role.map(|role| text(attribute::ROLE, role)).into_iter().collect();
        ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }
    }

    #[test]
    fn points_are_left_out_one_by_one_and_others_keep_their_bytes() {
        let [other, sidecar] = [sent(None, &["a", "b"]), sent(Some("sidecar"), &["a", "b"])];
        let whole = ExportMetricsServiceRequest { resource_metrics: vec![other.clone(), sidecar] };
        let request = EncodedRequest::new(Signal::Metrics, 12, whole.encode_to_vec().into());
        let same = drop_gpu_points(request.clone(), &mut |_| false).unwrap();
        assert_eq!(same.body(), request.body());
        let mut visited = 0;
        let left = drop_gpu_points(request, &mut |point| {
            visited += 1;
            assert_eq!((point.start.as_nanos(), point.at.as_nanos()), (5, 60));
            point.role == "sidecar" && point.gpu == "a"
        });
        let left = left.unwrap();
        assert_eq!((visited, left.items()), (4, 10));
        let decoded = ExportMetricsServiceRequest::decode(&left.body()[..]).unwrap();
        assert_eq!(decoded.resource_metrics[0], other);
        let gpus = decoded.resource_metrics[1].scope_metrics[0].metrics.iter().map(|metric| {
            let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
            sum.data_points.len()
        });
        assert_eq!(gpus.collect::<Vec<_>>(), [1, 1, 2]);
    }
}
