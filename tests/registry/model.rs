//! Reads the registry: `otel-config/registry` and what it uses of the upstream conventions.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

#[path = "yaml.rs"]
mod yaml;

/// The files of our registry, in the order of the reference page.
pub(crate) const FILES: [&str; 5] =
    ["metrics.yaml", "internal.yaml", "spans.yaml", "events.yaml", "attributes.yaml"];

const UPSTREAM: &str = "tests/registry/upstream.yaml";

/// One file, in the second format of Weaver.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) file_format: String,
    #[serde(default)]
    pub(crate) attributes: Vec<Attribute>,
    #[serde(default)]
    attribute_groups: Vec<Group>,
    #[serde(default)]
    pub(crate) metrics: Vec<Metric>,
    #[serde(default)]
    pub(crate) spans: Vec<Span>,
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

/// The definition of an attribute.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attribute {
    pub(crate) key: String,
    #[serde(rename = "type")]
    pub(crate) kind: AttributeType,
    stability: String,
    #[serde(default)]
    pub(crate) brief: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    examples: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum AttributeType {
    Name(String),
    Enum { members: Vec<Member> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    id: String,
    pub(crate) value: String,
    #[serde(default)]
    pub(crate) brief: String,
    stability: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    id: String,
    visibility: String,
    attributes: Vec<Reference>,
}

/// A reference to an attribute or a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    #[serde(rename = "ref")]
    key: Option<String>,
    ref_group: Option<String>,
    #[serde(default)]
    requirement_level: Level,
}

/// The requirement level of an attribute.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Required,
    ConditionallyRequired(String),
    #[default]
    Recommended,
    OptIn,
}

/// The definition of a metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) instrument: String,
    pub(crate) unit: String,
    stability: String,
    #[serde(default)]
    requirement_level: Level,
    pub(crate) brief: String,
    pub(crate) annotations: Annotations,
    #[serde(default)]
    attributes: Vec<Reference>,
    #[serde(skip)]
    pub(crate) resolved: Vec<(String, Level)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Annotations {
    pub(crate) code_generation: Option<CodeGeneration>,
    pub(crate) phasemeter: Emission,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeGeneration {
    pub(crate) metric_value_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Emission {
    /// The tests that must see it: `audit`, `run`, `gateway` or `internal`.
    pub(crate) emitted_by: Vec<String>,
    /// The smallest set that has a metric of GPUs.
    pub(crate) set: Option<String>,
}

/// The definition of a kind of spans.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Span {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(rename = "kind")]
    span_kind: String,
    stability: String,
    pub(crate) brief: String,
    pub(crate) name: SpanName,
    pub(crate) annotations: Annotations,
    attributes: Vec<Reference>,
    #[serde(skip)]
    pub(crate) resolved: Vec<(String, Level)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpanName {
    pub(crate) note: String,
}

/// The definition of an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) name: String,
    stability: String,
    pub(crate) brief: String,
    pub(crate) annotations: Annotations,
    attributes: Vec<Reference>,
    #[serde(skip)]
    pub(crate) resolved: Vec<(String, Level)>,
}

/// All definitions, with their references resolved.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) attributes: BTreeMap<String, Attribute>,
    pub(crate) metrics: BTreeMap<String, Metric>,
    pub(crate) spans: BTreeMap<String, Span>,
    pub(crate) events: BTreeMap<String, Event>,
    /// What is wrong with the files themselves.
    pub(crate) problems: Vec<String>,
}

/// Reads one file.
pub(crate) fn read(root: &Path, path: &str) -> File {
    let text = std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let value = yaml::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file: File = serde_json::from_value(value).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(file.file_format, "definition/2", "{path}");
    file
}

impl Registry {
    /// Reads all files below the root of the repository.
    pub(crate) fn read(root: &Path) -> Self {
        let ours = FILES.map(|file| format!("otel-config/registry/{file}"));
        let paths = ours.iter().map(String::as_str).chain([UPSTREAM]);
        let files: Vec<_> = paths.map(|path| read(root, path)).collect();
        let mut registry = Self::default();
        let mut groups = BTreeMap::new();
        for file in &files {
            for attribute in &file.attributes {
                let same = registry.attributes.insert(attribute.key.clone(), attribute.clone());
                registry.unique(same.is_none(), &attribute.key);
            }
            for group in &file.attribute_groups {
                let same = groups.insert(group.id.as_str(), group);
                registry.unique(same.is_none(), &group.id);
            }
        }
        for file in &files {
            for metric in &file.metrics {
                let resolved = registry.resolve(&metric.name, &metric.attributes, &groups);
                let metric = Metric { resolved, ..metric.clone() };
                let same = registry.metrics.insert(metric.name.clone(), metric.clone());
                registry.unique(same.is_none(), &metric.name);
            }
            for span in &file.spans {
                let resolved = registry.resolve(&span.kind, &span.attributes, &groups);
                let span = Span { resolved, ..span.clone() };
                let same = registry.spans.insert(span.kind.clone(), span.clone());
                registry.unique(same.is_none(), &span.kind);
            }
            for event in &file.events {
                let resolved = registry.resolve(&event.name, &event.attributes, &groups);
                let event = Event { resolved, ..event.clone() };
                let same = registry.events.insert(event.name.clone(), event.clone());
                registry.unique(same.is_none(), &event.name);
            }
        }
        registry
    }

    fn unique(&mut self, is_unique: bool, name: &str) {
        if !is_unique {
            self.problems.push(format!("{name}: defined twice"));
        }
    }

    /// The attributes that references lead to, with their levels.
    fn resolve(
        &mut self,
        of: &str,
        references: &[Reference],
        groups: &BTreeMap<&str, &Group>,
    ) -> Vec<(String, Level)> {
        let mut resolved = Vec::new();
        for reference in references {
            let Reference { key, ref_group, requirement_level } = reference;
            match (key, ref_group) {
                (Some(key), None) if self.attributes.contains_key(key) => {
                    resolved.push((key.clone(), requirement_level.clone()));
                }
                (None, Some(group)) if groups.contains_key(group.as_str()) => {
                    resolved.extend(self.resolve(of, &groups[group.as_str()].attributes, groups));
                }
                _ => self.problems.push(format!("{of}: unresolved reference {reference:?}")),
            }
        }
        resolved
    }
}
