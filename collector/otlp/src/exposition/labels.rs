//! Labels of series: the attributes of a point, and those that its resource gives to all of its series.

use std::collections::BTreeMap;
use std::fmt::Write;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use super::names::label_name;
use crate::names::attribute;

/// Attributes of resources that become labels of each series. The same as in
/// `otel-config/prometheus/otlp.yaml` and `otel-config/collector/collector.yaml`.
const PROMOTED: [&str; 14] = [
    "cloud.region",
    "host.name",
    "k8s.cluster.name",
    "k8s.cronjob.name",
    "k8s.deployment.name",
    "k8s.job.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.statefulset.name",
    attribute::EXPERIMENT_ID,
    attribute::ROLE,
    "service.name",
    "team",
];

/// Attributes of resources that `job` and `instance` are made of.
const IDENTIFYING: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// Labels by name. A label without a value is none.
pub(super) type Labels = BTreeMap<String, String>;

/// What the series of a resource have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceLabels {
    /// `job` and `instance`, which are in place of any label of that name.
    identity: Labels,
    /// Attributes that become labels of each series, unless the series has a label of that name.
    promoted: Labels,
    /// The labels of `target_info`; empty if there would be nothing to join.
    target: Labels,
}

impl ResourceLabels {
    /// Those of a resource with these attributes.
    pub(super) fn of(attributes: &[KeyValue]) -> Self {
        let get = |key: &str| {
            let found = attributes.iter().find(|it| it.key == key);
            found.and_then(|it| it.value.as_ref()).map(text).filter(|value| !value.is_empty())
        };
        let job = get("service.name").map(|name| match get("service.namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name,
        });
        let both = [("job", job), ("instance", get("service.instance.id"))];
        let identity: Labels =
            both.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let promoted = PROMOTED.into_iter();
        let promoted = promoted.filter_map(|key| Some((label_name(key), get(key)?))).collect();
        let others = attributes.iter().filter(|it| !IDENTIFYING.contains(&it.key.as_str()));
        let mut target = labels(others);
        if !target.is_empty() && !identity.is_empty() {
            target.extend(identity.clone());
        } else {
            target.clear();
        }
        Self { identity, promoted, target }
    }

    /// The labels of a series, as they are written between braces.
    pub(super) fn of_series(&self, attributes: &[KeyValue]) -> String {
        let mut all = self.promoted.clone();
        all.extend(labels(attributes.iter()));
        all.extend(self.identity.clone());
        written(&all)
    }

    /// The labels of `target_info`, as they are written between braces.
    pub(super) fn target(&self) -> Option<String> {
        (!self.target.is_empty()).then(|| written(&self.target))
    }
}

/// The labels that attributes become. Values whose names are the same are joined, in the order of their keys.
fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Labels {
    let mut sorted: Vec<_> = attributes.collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    let mut labels = Labels::new();
    for KeyValue { key, value, .. } in sorted {
        let (name, value) = (label_name(key), value.as_ref().map(text).unwrap_or_default());
        if name.is_empty() || value.is_empty() {
            continue;
        }
        let entry = labels.entry(name).or_default();
        if !entry.is_empty() {
            entry.push(';');
        }
        entry.push_str(&value);
    }
    labels
}

/// A value as a label has it. Lists and maps, which Phasemeter does not write, have no text.
fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        _ => String::new(),
    }
}

/// Labels as both formats write them.
pub(super) fn written(labels: &Labels) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{name}=\"{}\"", escaped(value));
    }
    text
}

/// A label's value between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn attribute(key: &str, value: &str) -> KeyValue {
        let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    #[test]
    fn labels_of_a_resource_are_those_that_the_configuration_of_prometheus_promotes() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/prometheus/otlp.yaml");
        let shipped = fs::read_to_string(root).unwrap();
        let shipped = shipped.lines().filter_map(|line| line.strip_prefix("    - "));
        assert_eq!(shipped.collect::<Vec<_>>(), PROMOTED);
    }

    #[test]
    fn labels_of_a_point_take_precedence_and_an_empty_one_is_none() {
        let resource = ResourceLabels::of(&[
            attribute("service.name", "train"),
            attribute("service.namespace", "ml"),
            attribute("service.instance.id", "7"),
            attribute("host.name", "node\\1\n"),
            attribute("k8s.pod.name", "agent"),
            attribute("host.arch", "arm64"),
        ]);
        let point = [
            attribute("k8s.pod.name", ""),
            attribute("host.name", "\"other\""),
            attribute("a.b", "1"),
            attribute("a-b", "2"),
            attribute("job", "mine"),
        ];
        let expected = r#"a_b="2;1",host_name="\"other\"",instance="7",job="ml/train",k8s_pod_name="agent",service_name="train""#;
        assert_eq!(resource.of_series(&point), expected);
        let target = r#"host_arch="arm64",host_name="node\\1\n",instance="7",job="ml/train",k8s_pod_name="agent""#;
        assert_eq!(resource.target().as_deref(), Some(target));
        assert_eq!(ResourceLabels::of(&[attribute("service.name", "x")]).target(), None);
    }
}
