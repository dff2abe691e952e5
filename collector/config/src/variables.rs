//! OpenTelemetry's keys as the variables of OpenTelemetry that mean the same.

use std::collections::BTreeMap;

use crate::arguments::LOG_LEVEL;
use crate::node::Node;
use crate::reader::{Reader, Setting};
use crate::{resource, sampler, signals};

/// A key with one value, its variable, and the values that have an effect, if not all have.
pub(crate) const VALUES: [(&str, &str, Option<&[&str]>); 9] = [
    ("disabled", "OTEL_SDK_DISABLED", None),
    ("attribute_limits.attribute_value_length_limit", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", None),
    ("attribute_limits.attribute_count_limit", "OTEL_ATTRIBUTE_COUNT_LIMIT", None),
    (
        "tracer_provider.limits.attribute_value_length_limit",
        "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        None,
    ),
    ("tracer_provider.limits.attribute_count_limit", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", None),
    ("tracer_provider.limits.link_count_limit", "OTEL_SPAN_LINK_COUNT_LIMIT", None),
    (
        "logger_provider.limits.attribute_value_length_limit",
        "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        None,
    ),
    ("logger_provider.limits.attribute_count_limit", "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", None),
    (
        "meter_provider.exemplar_filter",
        "OTEL_METRICS_EXEMPLAR_FILTER",
        Some(&["trace_based", "always_off"]),
    ),
];

/// The variables of a file, and the keys that have no effect here, each with its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    pub(crate) settings: BTreeMap<String, Setting>,
    pub(crate) without_effect: Vec<(usize, String)>,
}

/// Reads the keys of OpenTelemetry.
pub(crate) fn read(root: &Node) -> Variables {
    let mut reader = Reader::default();
    for (path, variable, accepted) in VALUES {
        let Some(node) = root.at(path) else { continue };
        let text = node.text();
        let is_accepted =
            accepted.is_none_or(|known| text.as_deref().is_none_or(|text| known.contains(&text)));
        if is_accepted {
            reader.take(node);
        }
        if let Some(text) = text.filter(|_| is_accepted) {
            reader.set(variable, text, path, node.line);
        }
    }
    signals::read(&mut reader, root);
    sampler::read(&mut reader, root);
    resource::read(&mut reader, root);
    let mut without_effect = Vec::new();
    for entry in root.entries() {
        // The level of the log is an option.
        if !["distribution", "file_format", LOG_LEVEL.0].contains(&entry.key.as_str()) {
            reader.unused(&entry.node, entry.line, &entry.key, &mut without_effect);
        }
    }
    Variables { settings: reader.settings, without_effect }
}
