//! Values of attributes. Must not depend on what has them.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

/// The value of an attribute.
pub(super) fn find<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    attribute.value.as_ref()?.value.as_ref()
}

/// The value of a text attribute.
pub(super) fn find_text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    match find(attributes, name)? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// A scalar as text.
pub(super) fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text.clone()),
        Value::BoolValue(is_so) => Some(is_so.to_string()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::DoubleValue(number) => Some(number.to_string()),
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
