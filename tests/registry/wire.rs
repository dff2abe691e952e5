//! Compares what was sent with the registry: names, types, units, instruments, enum values and required
//! attributes, and whether everything that a kind of run emits was seen.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::otlp::Captured;
use crate::registry::model::{Annotations, AttributeType, Level, Registry};

/// What was sent, compared with the registry.
pub(crate) struct WireCheck<'a> {
    registry: &'a Registry,
    /// The kind of run, as in `emitted_by`.
    run: &'static str,
    seen: BTreeSet<String>,
    /// What differs. A set, since most of it repeats for each point.
    problems: BTreeSet<String>,
}

impl<'a> WireCheck<'a> {
    pub(crate) fn new(registry: &'a Registry, run: &'static str) -> Self {
        Self { registry, run, seen: BTreeSet::new(), problems: BTreeSet::new() }
    }

    /// Checks a file.
    pub(crate) fn captured(&mut self, captured: &Captured) {
        for (attributes, names) in &captured.resources {
            for key in attributes.keys().filter(|key| key.starts_with("phasemeter.")) {
                if !self.registry.attributes.contains_key(key) {
                    self.problem(format!("resource of {names:?}: unknown attribute {key}"));
                }
            }
        }
        captured.metrics.iter().for_each(|metric| self.metric(metric));
        captured.spans.iter().for_each(|span| self.span(span));
        captured.events.iter().for_each(|event| self.event(event));
    }

    /// What differs, in both directions.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let registry = self.registry;
        let metrics = registry.metrics.values().map(|it| (&it.name, &it.annotations));
        let spans = registry.spans.values().map(|it| (&it.kind, &it.annotations));
        let events = registry.events.values().map(|it| (&it.name, &it.annotations));
        for (name, annotations) in metrics.chain(spans).chain(events) {
            let is_expected = annotations.phasemeter.emitted_by.iter().any(|run| run == self.run);
            if is_expected && !self.seen.contains(name) {
                self.problem(format!("{name}: in the registry, but not sent"));
            }
        }
        self.problems.into_iter().collect()
    }

    fn problem(&mut self, problem: String) {
        self.problems.insert(problem);
    }

    fn saw(&mut self, name: &str, annotations: &Annotations) {
        let run = self.run;
        if self.seen.insert(name.to_owned())
            && !annotations.phasemeter.emitted_by.iter().any(|it| it == run)
        {
            self.problem(format!("{name}: the registry lacks {run} in emitted_by"));
        }
    }

    pub(crate) fn metric(&mut self, metric: &Metric) {
        let name = &metric.name;
        let registry = self.registry;
        let Some(definition) = registry.metrics.get(name) else {
            return self.problem(format!("metric {name}: not in the registry"));
        };
        self.saw(name, &definition.annotations);
        if metric.unit != definition.unit {
            self.problem(format!("{name}: unit {}, not {}", metric.unit, definition.unit));
        }
        let (instrument, points): (_, Vec<(&[KeyValue], Option<&NumberDataPoint>)>) =
            match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => ("gauge", numbers(&gauge.data_points)),
                Data::Sum(sum) if sum.is_monotonic => ("counter", numbers(&sum.data_points)),
                Data::Sum(sum) => ("updowncounter", numbers(&sum.data_points)),
                Data::Histogram(it) => {
                    let points = it.data_points.iter();
                    ("histogram", points.map(|it| (it.attributes.as_slice(), None)).collect())
                }
                Data::ExponentialHistogram(it) => {
                    let points = it.data_points.iter();
                    ("histogram", points.map(|it| (it.attributes.as_slice(), None)).collect())
                }
                Data::Summary(_) => ("summary", Vec::new()),
            };
        if instrument != definition.instrument {
            self.problem(format!("{name}: {instrument}, not {}", definition.instrument));
        }
        let expected = definition.annotations.code_generation.as_ref();
        let expected = expected.map(|it| it.metric_value_type.as_str());
        for (attributes, number) in points {
            let kind = number.and_then(|point| match point.value? {
                number_data_point::Value::AsDouble(_) => Some("double"),
                number_data_point::Value::AsInt(_) => Some("int"),
            });
            if kind.is_some() && kind != expected {
                self.problem(format!("{name}: values are {kind:?}, not {expected:?}"));
            }
            self.attributes(name, attributes, &definition.resolved);
        }
    }

    pub(crate) fn span(&mut self, span: &Span) {
        let kind = match span.name.as_str() {
            "experiment" => "phasemeter.experiment",
            "gpu session" => "phasemeter.gpu.session",
            // The name of a phase span is its phase, which is an enum.
            _ => "phasemeter.phase",
        };
        let registry = self.registry;
        let Some(definition) = registry.spans.get(kind) else {
            return self.problem(format!("span {kind}: not in the registry"));
        };
        self.saw(kind, &definition.annotations);
        if span.kind != SpanKind::Internal as i32 {
            self.problem(format!("{kind}: not an internal span"));
        }
        if kind == "phasemeter.phase" {
            let phase = span.attributes.iter().find(|it| it.key == "phasemeter.phase");
            let phase = phase.and_then(|it| text(it.value.as_ref()?));
            if phase.as_deref() != Some(&span.name) {
                self.problem(format!("span {}: its phase is {phase:?}", span.name));
            }
        }
        self.attributes(kind, &span.attributes, &definition.resolved);
    }

    /// Checks what was added to a span of the workload.
    pub(crate) fn priced_span(&mut self, added: &[KeyValue]) {
        let kind = "phasemeter.priced";
        let definition = &self.registry.spans[kind];
        self.saw(kind, &definition.annotations);
        self.attributes(kind, added, &definition.resolved);
    }

    pub(crate) fn event(&mut self, event: &LogRecord) {
        let name = &event.event_name;
        let registry = self.registry;
        let Some(definition) = registry.events.get(name) else {
            return self.problem(format!("event {name}: not in the registry"));
        };
        self.saw(name, &definition.annotations);
        self.attributes(name, &event.attributes, &definition.resolved);
    }

    /// Checks the attributes of a point, span or event.
    fn attributes(&mut self, of: &str, sent: &[KeyValue], defined: &[(String, Level)]) {
        let registry = self.registry;
        for pair in sent {
            let definition = defined
                .iter()
                .filter_map(|(key, _)| registry.attributes.get(key))
                .find(|definition| matches(&definition.key, &definition.kind, &pair.key));
            match definition {
                None => self.problem(format!("{of}: unknown attribute {}", pair.key)),
                Some(definition) => {
                    let value = pair.value.as_ref();
                    if let Some(problem) = mismatch(&definition.kind, value) {
                        self.problem(format!("{of}: {}: {problem}", pair.key));
                    }
                }
            }
        }
        for (key, level) in defined {
            if *level == Level::Required && !sent.iter().any(|pair| pair.key == *key) {
                self.problem(format!("{of}: lacks the required {key}"));
            }
        }
    }
}

fn numbers(points: &[NumberDataPoint]) -> Vec<(&[KeyValue], Option<&NumberDataPoint>)> {
    points.iter().map(|point| (point.attributes.as_slice(), Some(point))).collect()
}

/// Whether an attribute is this one, or one of this template.
fn matches(key: &str, kind: &AttributeType, sent: &str) -> bool {
    match kind {
        AttributeType::Name(name) if name.starts_with("template[") => {
            sent.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
        }
        _ => key == sent,
    }
}

fn text(value: &AnyValue) -> Option<String> {
    match value.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// How a value differs from its type.
fn mismatch(kind: &AttributeType, value: Option<&AnyValue>) -> Option<String> {
    let value = value.and_then(|value| value.value.as_ref());
    match kind {
        AttributeType::Enum { members } => match value {
            Some(Value::StringValue(text)) if members.iter().any(|it| it.value == *text) => None,
            other => Some(format!("{other:?} is not a member")),
        },
        AttributeType::Name(name) => {
            let inner = name.strip_prefix("template[").and_then(|it| it.strip_suffix(']'));
            let name = inner.unwrap_or(name);
            let is_valid = match value {
                Some(Value::StringValue(_)) => ["string", "any"].contains(&name),
                Some(Value::BoolValue(_)) => ["boolean", "any"].contains(&name),
                Some(Value::IntValue(_)) => ["int", "any"].contains(&name),
                Some(Value::DoubleValue(_)) => ["double", "any"].contains(&name),
                Some(Value::ArrayValue(list)) => {
                    let texts = list.values.iter().map(text);
                    name == "string[]" && texts.into_iter().all(|text| text.is_some())
                }
                _ => false,
            };
            (!is_valid).then(|| format!("{value:?} is not of type {name}"))
        }
    }
}
