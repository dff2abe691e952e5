//! Values of attributes, found by key.

use std::borrow::Cow;
use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use phasemeter_meter::label_filter::MAX_LABEL;

/// Number of attributes from which on they are indexed.
const INDEXED: usize = 32;

/// The attributes of a resource, which are looked up for each of its items: in the same time however many
/// there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes<'a> {
    list: &'a [KeyValue],
    /// The first attribute of each key, if there are many.
    index: Option<HashMap<&'a str, &'a KeyValue>>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(list: &'a [KeyValue]) -> Self {
        let index = || {
            let mut index = HashMap::with_capacity(list.len());
            for attribute in list {
                index.entry(attribute.key.as_str()).or_insert(attribute);
            }
            index
        };
        Self { list, index: (list.len() > INDEXED).then(index) }
    }

    /// All of them.
    pub(super) const fn list(&self) -> &'a [KeyValue] {
        self.list
    }

    /// The text of a label: a text attribute of usual length.
    pub(super) fn label(&self, name: &str) -> Option<&'a str> {
        label(self.find(name)?)
    }

    /// A scalar of usual length, as text.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        to_text(self.find(name)?).filter(|text| text.len() <= MAX_LABEL)
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        match &self.index {
            Some(index) => value(index.get(name)?),
            None => find(self.list, name),
        }
    }
}

/// The value of an attribute.
pub(super) fn find<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    value(attributes.iter().find(|attribute| attribute.key == name)?)
}

/// The text of a label of a point.
pub(super) fn find_label<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    label(find(attributes, name)?)
}

fn value(attribute: &KeyValue) -> Option<&Value> {
    attribute.value.as_ref()?.value.as_ref()
}

fn label(value: &Value) -> Option<&str> {
    match value {
        Value::StringValue(text) if text.len() <= MAX_LABEL => Some(text),
        _ => None,
    }
}

/// A scalar as text.
pub(super) fn to_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::StringValue(text) => Some(Cow::Borrowed(text)),
        Value::BoolValue(is_so) => Some(Cow::Owned(is_so.to_string())),
        Value::IntValue(number) => Some(Cow::Owned(number.to_string())),
        Value::DoubleValue(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// A number.
#[expect(clippy::cast_precision_loss, reason = "compared with doubles")]
pub(super) fn to_number(value: &Value) -> Option<f64> {
    match value {
        Value::IntValue(number) => Some(*number as f64),
        Value::DoubleValue(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::AnyValue;

    use super::*;

    fn attribute(key: &str, value: Value) -> KeyValue {
        let value = Some(AnyValue { value: Some(value) });
        KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
    }

    fn text(key: &str, value: &str) -> KeyValue {
        attribute(key, Value::StringValue(value.to_owned()))
    }

    #[test]
    fn first_attribute_of_a_key_counts_however_many_there_are() {
        for others in [0, INDEXED, 1_000] {
            let mut list = vec![text("host.name", "a"), text("host.name", "b")];
            list.extend((0..others).map(|n| text(&n.to_string(), "x")));
            list.push(attribute("process.pid", Value::IntValue(7)));
            let attributes = Attributes::new(&list);
            assert_eq!(attributes.label("host.name"), Some("a"), "{others}");
            assert_eq!(attributes.text("process.pid").as_deref(), Some("7"));
            assert_eq!((attributes.label("process.pid"), attributes.label("other")), (None, None));
        }
    }

    #[test]
    fn long_label_counts_as_absent() {
        let list = [text("a", &"x".repeat(MAX_LABEL)), text("b", &"x".repeat(MAX_LABEL + 1))];
        let attributes = Attributes::new(&list);
        assert!(attributes.label("a").is_some() && attributes.text("a").is_some());
        assert!(attributes.label("b").is_none() && attributes.text("b").is_none());
        assert!(find_label(&list, "b").is_none());
    }
}
