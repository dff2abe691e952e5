//! The counters of a metrics request, with what identifies their streams.
//!
//! Must not depend on what a counter counts.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use phasemeter_meter::units::Timestamp;
use prost::Message;
use sha2::{Digest, Sha256};

use super::attributes::find_text;
use super::points::number;

/// Set if a point has no value (`DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`).
const NO_VALUE: u32 = 1;

/// The attributes that identify a resource, if it has the last one. Others may be added to it later, by
/// a Collector for example.
const IDENTITY: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// A point of a monotonic sum, or the sum of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterView<'a> {
    /// The name of the metric.
    pub metric: &'a str,
    /// Whether it is of a histogram.
    pub is_histogram: bool,
    /// Whether the value is that since `start`, and not a total.
    pub is_delta: bool,
    /// Since when it counts, if known.
    pub start: Option<Timestamp>,
    /// When it was measured.
    pub at: Timestamp,
    /// The value.
    pub value: f64,
    /// What identifies its stream.
    pub stream: [u8; 16],
    scope: &'a str,
    attributes: &'a [KeyValue],
    resource: &'a [KeyValue],
}

impl<'a> CounterView<'a> {
    /// A text attribute of the point, else of its resource.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'a str> {
        find_text(self.attributes, name).or_else(|| find_text(self.resource, name))
    }

    /// What identifies all streams of this metric from one sender.
    #[must_use]
    pub fn streams_of_sender(&self) -> [u8; 16] {
        stream_id(self.resource, self.scope, self.metric, &[])
    }
}

/// Visits the points of the counters and histograms that `is_wanted`, by the name of the metric.
pub fn counter_points<'a>(
    request: &'a ExportMetricsServiceRequest,
    is_wanted: impl Fn(&str) -> bool,
    mut visit: impl FnMut(CounterView<'a>),
) {
    for group in &request.resource_metrics {
        let resource = group.resource.as_ref().map_or(&[][..], |it| &it.attributes);
        for scope_metrics in &group.scope_metrics {
            let scope = scope_metrics.scope.as_ref().map_or("", |scope| &scope.name);
            for metric in scope_metrics.metrics.iter().filter(|it| is_wanted(&it.name)) {
                points(metric, scope, resource, &mut visit);
            }
        }
    }
}

fn points<'a>(
    metric: &'a Metric,
    scope: &'a str,
    resource: &'a [KeyValue],
    visit: &mut impl FnMut(CounterView<'a>),
) {
    let mut point = |is_histogram: bool,
                     temporality: i32,
                     flags: u32,
                     times: (u64, u64),
                     value: Option<f64>,
                     attributes: &'a [KeyValue]| {
        let is_delta = match AggregationTemporality::try_from(temporality) {
            Ok(AggregationTemporality::Delta) => true,
            Ok(AggregationTemporality::Cumulative) => false,
            Ok(AggregationTemporality::Unspecified) | Err(_) => return,
        };
        let (start, at) = times;
        let (Some(value), Some(at)) = (value, Timestamp::from_nanos(at)) else { return };
        if flags & NO_VALUE == 0 && at > Timestamp::EPOCH {
            let start = Timestamp::from_nanos(start).filter(|start| *start > Timestamp::EPOCH);
            let metric = metric.name.as_str();
            let stream = stream_id(resource, scope, metric, attributes);
            visit(CounterView {
                metric,
                is_histogram,
                is_delta,
                start,
                at,
                value,
                stream,
                scope,
                attributes,
                resource,
            });
        }
    };
    match &metric.data {
        Some(Data::Sum(sum)) if sum.is_monotonic => {
            for it in &sum.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                let temporality = sum.aggregation_temporality;
                point(false, temporality, it.flags, times, number(it), &it.attributes);
            }
        }
        Some(Data::Histogram(histogram)) => {
            for it in &histogram.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                let temporality = histogram.aggregation_temporality;
                point(true, temporality, it.flags, times, it.sum, &it.attributes);
            }
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            for it in &histogram.data_points {
                let times = (it.start_time_unix_nano, it.time_unix_nano);
                let temporality = histogram.aggregation_temporality;
                point(true, temporality, it.flags, times, it.sum, &it.attributes);
            }
        }
        _ => {}
    }
}

/// A digest of what identifies a stream, whatever the order of attributes.
fn stream_id(
    resource: &[KeyValue],
    scope: &str,
    metric: &str,
    attributes: &[KeyValue],
) -> [u8; 16] {
    let [.., instance] = IDENTITY;
    let has_instance = resource.iter().any(|it| it.key == instance);
    let is_identity = |it: &&KeyValue| !has_instance || IDENTITY.contains(&it.key.as_str());
    let mut digest = Sha256::new();
    for list in [
        resource.iter().filter(is_identity).collect::<Vec<_>>(),
        attributes.iter().collect::<Vec<_>>(),
    ] {
        let mut encoded: Vec<Vec<u8>> = list.into_iter().map(Message::encode_to_vec).collect();
        encoded.sort_unstable();
        digest.update((encoded.len() as u64).to_le_bytes());
        for attribute in encoded {
            digest.update((attribute.len() as u64).to_le_bytes());
            digest.update(attribute);
        }
    }
    for text in [scope, metric] {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&digest.finalize()[..16]);
    id
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
        let pair = |(key, value): &(&str, &str)| {
            let value = Some(AnyValue { value: Some(Value::StringValue((*value).to_owned())) });
            KeyValue { key: (*key).to_owned(), value, ..KeyValue::default() }
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn stream_is_identified_whatever_the_order_and_what_is_added_to_its_resource() {
        let id = |resource: &[(&str, &str)], point: &[(&str, &str)]| {
            stream_id(&attributes(resource), "s", "m", &attributes(point))
        };
        let instance = ("service.instance.id", "i");
        let first = id(&[instance], &[("a", "1"), ("b", "2")]);
        assert_eq!(first, id(&[("k8s.pod.name", "p"), instance], &[("b", "2"), ("a", "1")]));
        assert_ne!(first, id(&[("service.instance.id", "j")], &[("a", "1"), ("b", "2")]));
        assert_ne!(first, id(&[instance], &[("a", "1")]));
        assert_ne!(id(&[("host.name", "h")], &[]), id(&[("host.name", "g")], &[]));
    }
}
