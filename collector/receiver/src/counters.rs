//! The counters of a metrics request, with what identifies their streams.

use std::cell::LazyCell;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use phasemeter_meter::instrument::Instrument;
use phasemeter_meter::units::Timestamp;
use prost::Message;
use sha2::{Digest, Sha256};

use super::attributes::{Attributes, find_label};
use super::points::{AnyPoint, any_points};

/// The attributes that identify a resource, if it has the last one. Others may be added to it later, by
/// a Collector for example.
const IDENTITY: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// A point of a metric that counts, if it is declared as something that does.
#[derive(Clone, Debug)]
pub struct CounterView<'a> {
    /// The name of the metric.
    pub metric: &'a str,
    /// What it is declared as.
    pub instrument: Instrument,
    /// Since when it counts, if known.
    pub start: Option<Timestamp>,
    /// When it was measured.
    pub at: Timestamp,
    /// The number, or the sum of a histogram.
    pub value: f64,
    attributes: &'a [KeyValue],
    group: &'a Group<'a>,
}

/// What the points of one metric of a sender have in common.
#[derive(Clone, Debug)]
struct Group<'a> {
    resource: &'a Attributes<'a>,
    resource_id: [u8; 16],
    /// What was read of the identity of their streams: resource, scope and metric.
    digest: Sha256,
}

impl<'a> CounterView<'a> {
    /// A text attribute of the point, else of its resource. One that is longer than
    /// [`MAX_LABEL`](phasemeter_meter::label_filter::MAX_LABEL) counts as absent.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&'a str> {
        find_label(self.attributes, name).or_else(|| self.group.resource.label(name))
    }

    /// What identifies its stream.
    #[must_use]
    pub fn stream(&self) -> [u8; 16] {
        id(self.group.digest.clone(), self.attributes)
    }

    /// What identifies its resource.
    #[must_use]
    pub const fn resource(&self) -> [u8; 16] {
        self.group.resource_id
    }

    /// What identifies all streams of this metric from one sender.
    #[must_use]
    pub fn streams_of_sender(&self) -> [u8; 16] {
        id(self.group.digest.clone(), &[])
    }
}

/// Visits the points of the metrics that `is_wanted`, by name.
///
/// What identifies the resource, the scope and the metric of a stream is digested once for all of their
/// points.
pub fn counter_points(
    request: &ExportMetricsServiceRequest,
    is_wanted: impl Fn(&str) -> bool,
    mut visit: impl FnMut(CounterView<'_>),
) {
    for group in &request.resource_metrics {
        let attributes = group.resource.as_ref().map_or(&[][..], |it| &it.attributes);
        let resource = &Attributes::new(attributes);
        let of_resource = LazyCell::new(|| digest_of_resource(attributes));
        for scope_metrics in &group.scope_metrics {
            let of_scope = LazyCell::new(|| {
                let scope = scope_metrics.scope.as_ref().map_or("", |scope| &scope.name);
                with_text(of_resource.clone(), scope)
            });
            for metric in scope_metrics.metrics.iter().filter(|it| is_wanted(&it.name)) {
                let digest = with_text(of_scope.clone(), &metric.name);
                let resource_id = cut(of_resource.clone());
                points(metric, &Group { resource, resource_id, digest }, &mut visit);
            }
        }
    }
}

fn points(metric: &Metric, group: &Group<'_>, visit: &mut impl FnMut(CounterView<'_>)) {
    let name = metric.name.as_str();
    any_points(metric, |point| {
        let AnyPoint { instrument, attributes, start, at, is_recorded, value } = point;
        if let (true, Some(at), Some(value)) = (is_recorded, at, value) {
            visit(CounterView { metric: name, instrument, start, at, value, attributes, group });
        }
    });
}

/// The beginning of the identity of a stream: that of its resource.
fn digest_of_resource(resource: &[KeyValue]) -> Sha256 {
    let [.., instance] = IDENTITY;
    let has_instance = resource.iter().any(|it| it.key == instance);
    let is_identity = |it: &&KeyValue| !has_instance || IDENTITY.contains(&it.key.as_str());
    with_attributes(Sha256::new(), resource.iter().filter(is_identity))
}

/// Adds attributes, whatever their order.
fn with_attributes<'a>(
    mut digest: Sha256,
    attributes: impl Iterator<Item = &'a KeyValue>,
) -> Sha256 {
    let mut encoded: Vec<Vec<u8>> = attributes.map(Message::encode_to_vec).collect();
    encoded.sort_unstable();
    digest.update((encoded.len() as u64).to_le_bytes());
    for attribute in encoded {
        digest.update((attribute.len() as u64).to_le_bytes());
        digest.update(attribute);
    }
    digest
}

fn with_text(mut digest: Sha256, text: &str) -> Sha256 {
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
    digest
}

/// The identity of the stream with these attributes.
fn id(digest: Sha256, attributes: &[KeyValue]) -> [u8; 16] {
    cut(with_attributes(digest, attributes.iter()))
}

/// What identifies a resource with these attributes, whatever a Collector adds to it, if it has an instance ID.
pub(super) fn resource_id(attributes: &[KeyValue]) -> [u8; 16] {
    cut(digest_of_resource(attributes))
}

fn cut(digest: Sha256) -> [u8; 16] {
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
        let stream = |resource: &[(&str, &str)], point: &[(&str, &str)]| {
            let digest = with_text(digest_of_resource(&attributes(resource)), "s");
            id(with_text(digest, "m"), &attributes(point))
        };
        let instance = ("service.instance.id", "i");
        let first = stream(&[instance], &[("a", "1"), ("b", "2")]);
        assert_eq!(first, stream(&[("k8s.pod.name", "p"), instance], &[("b", "2"), ("a", "1")]));
        assert_ne!(first, stream(&[("service.instance.id", "j")], &[("a", "1"), ("b", "2")]));
        assert_ne!(first, stream(&[instance], &[("a", "1")]));
        assert_ne!(stream(&[("host.name", "h")], &[]), stream(&[("host.name", "g")], &[]));
    }
}
