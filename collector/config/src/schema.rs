//! The schema of a file: OpenTelemetry's own, with Phasemeter's section made from the table of keys.

use serde_json::{Map, Value, json};

use crate::keys::{SECTION, Shape, choices, keys, shape};
use crate::options::Options;

/// OpenTelemetry's schema 1.1.0 (see `data/README.md`).
const OTEL: &str = include_str!("../data/opentelemetry_configuration.json");

/// The schema, in JSON Schema's draft 2020-12.
pub(crate) fn build(options: &Options) -> Value {
    let mut schema: Value = serde_json::from_str(OTEL).unwrap_or_default();
    schema["$defs"]["Distribution"]["properties"] = json!({ "phasemeter": own(options) });
    schema
}

/// The section of Phasemeter.
fn own(options: &Options) -> Value {
    let mut sections = Map::new();
    for key in keys() {
        let section = sections.entry(key.section).or_insert_with(|| {
            json!({ "type": ["object", "null"], "additionalProperties": false, "properties": {} })
        });
        let Some(arg) = options.argument(key.option) else { continue };
        let mut property = match shape(arg) {
            Shape::Switch => json!({ "type": ["boolean", "null"] }),
            Shape::Scalar => json!({ "type": ["string", "number", "null"] }),
            Shape::Optional => json!({ "type": ["string", "number", "boolean", "null"] }),
            Shape::List => json!({
                "type": ["array", "string", "number", "null"],
                "items": { "type": ["string", "number"] },
            }),
            Shape::Pairs => json!({
                "type": ["array", "object", "string", "null"],
                "items": { "type": "string" },
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            }),
        };
        let choices = choices(arg);
        if shape(arg) == Shape::Scalar && !choices.is_empty() {
            property = json!({ "type": ["string", "null"], "enum": choices });
            if let Some(Value::Array(values)) = property.get_mut("enum") {
                values.push(Value::Null);
            }
        }
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let help = help.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        property["description"] = format!("--{}. {help}", key.option).into();
        section["properties"][key.name] = property;
    }
    json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "description": format!("Configuration of Phasemeter, {SECTION}."),
        "properties": sections,
    })
}
