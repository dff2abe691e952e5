//! The counters of a metrics request, with what identifies their streams.
//!
//! Must not depend on what a counter counts.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use phasemeter_meter::instrument::Instrument;
use phasemeter_meter::units::Timestamp;
use prost::Message;
use sha2::{Digest, Sha256};

use super::attributes::find_text;
use super::points::{AnyPoint, any_points};

/// The attributes that identify a resource, if it has the last one. Others may be added to it later, by
/// a Collector for example.
const IDENTITY: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// A point of a metric that counts, if it is declared as something that does.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Visits the points of the metrics that `is_wanted`, by name.
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
    let name = metric.name.as_str();
    any_points(metric, |point| {
        let AnyPoint { instrument, attributes, start, at, is_recorded, value } = point;
        if let (true, Some(at), Some(value)) = (is_recorded, at, value) {
            let stream = stream_id(resource, scope, name, attributes);
            visit(CounterView {
                metric: name,
                instrument,
                start,
                at,
                value,
                stream,
                scope,
                attributes,
                resource,
            });
        }
    });
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
