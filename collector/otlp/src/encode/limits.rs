//! Limits of spans and log records: the number of their attributes and links, and the length of
//! values. Resources and metrics are exempt.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

/// Limits of spans and log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attributes of a span.
    pub span: AttributeLimits,
    /// Attributes of a log record.
    pub log_record: AttributeLimits,
    /// Maximum number of links per span.
    pub span_links: u32,
}

/// Limits of a list of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeLimits {
    /// Maximum number; further attributes are dropped and counted.
    pub count: u32,
    /// Maximum length of a string in characters, also in a list; `None`: unlimited.
    pub value_length: Option<u32>,
}

/// OpenTelemetry's defaults.
impl Default for Limits {
    fn default() -> Self {
        let attributes = AttributeLimits { count: 128, value_length: None };
        Self { span: attributes, log_record: attributes, span_links: 128 }
    }
}

impl AttributeLimits {
    /// Truncates values and drops the last attributes. Returns the number of those dropped.
    pub(super) fn apply(&self, attributes: &mut Vec<KeyValue>) -> u32 {
        let dropped = truncate(attributes, self.count);
        if let Some(length) = self.value_length {
            let values = attributes.iter_mut().filter_map(|attribute| attribute.value.as_mut());
            values.for_each(|value| truncate_text(value, length));
        }
        dropped
    }
}

/// Keeps the first elements, and returns the number of those dropped.
pub(super) fn truncate<T>(elements: &mut Vec<T>, count: u32) -> u32 {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let dropped = elements.len().saturating_sub(count);
    elements.truncate(count);
    u32::try_from(dropped).unwrap_or(u32::MAX)
}

fn truncate_text(value: &mut AnyValue, length: u32) {
    let characters = usize::try_from(length).unwrap_or(usize::MAX);
    match &mut value.value {
        Some(Value::StringValue(text)) => {
            if let Some((end, _)) = text.char_indices().nth(characters) {
                text.truncate(end);
            }
        }
        Some(Value::ArrayValue(list)) => {
            list.values.iter_mut().for_each(|value| truncate_text(value, length));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::values::{text, texts, whole};

    #[test]
    fn attributes_are_dropped_from_the_end_and_strings_are_truncated() {
        let all = vec![
            text("a", "größer"),
            texts("b", ["abcd".to_owned(), "x".to_owned()].into_iter()),
            whole("c", 12_345),
            text("d", "abcd"),
        ];
        let limits = AttributeLimits { count: 3, value_length: Some(3) };
        let mut limited = all.clone();
        assert_eq!(limits.apply(&mut limited), 1);
        let lists = ["abc".to_owned(), "x".to_owned()].into_iter();
        assert_eq!(limited, [text("a", "grö"), texts("b", lists), whole("c", 12_345)]);

        let mut unlimited = all.clone();
        assert_eq!(Limits::default().span.apply(&mut unlimited), 0);
        assert_eq!(unlimited, all);
        let nothing = AttributeLimits { count: 0, value_length: Some(0) };
        assert_eq!(nothing.apply(&mut unlimited), 4);
        assert_eq!(unlimited, []);
    }
}
