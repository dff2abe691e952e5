//! The schema that a policy gives for its settings: a small part of JSON Schema, checked here so
//! that no guest needs a JSON parser.
//!
//! A keyword that this room does not know is refused when the policy is loaded: a rule that is
//! written down and not enforced is worse than none. It must not know any policy's settings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::settings::{SettingError, Settings, Value};

/// Keywords that rule nothing.
const ANNOTATIONS: [&str; 6] = ["$schema", "$id", "$comment", "title", "description", "examples"];

/// What settings must be. The default takes none.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
    text: String,
}

#[derive(Clone, Debug)]
struct Node {
    shape: Shape,
    one_of: Option<Vec<Json>>,
    default: Option<Json>,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `rest` is what a property that is not named must be; `None` where there must be none.
    Object {
        properties: BTreeMap<String, Node>,
        required: BTreeSet<String>,
        rest: Option<Box<Node>>,
    },
    Array {
        items: Box<Node>,
    },
    Number {
        whole: bool,
        range: Range,
    },
    Text,
    Flag,
}

/// The bounds of a number, each with whether it is itself out of range.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    low: Option<(f64, bool)>,
    high: Option<(f64, bool)>,
}

impl Default for Schema {
    fn default() -> Self {
        let shape =
            Shape::Object { properties: BTreeMap::new(), required: BTreeSet::new(), rest: None };
        let root = Node { shape, one_of: None, default: None };
        Self { root, text: String::new() }
    }
}

impl Schema {
    /// Reads a schema; an empty text takes no settings.
    ///
    /// # Errors
    /// Unless it is JSON, of an object, and made of the keywords that are known here. The
    /// error's path names the place in the schema.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let json = serde_json::from_str(text).map_err(|error| wrong("", error.to_string()))?;
        let root = Node::parse(&json, "")?;
        match root.shape {
            Shape::Object { .. } => Ok(Self { root, text: text.to_owned() }),
            _ => Err(wrong("", "its type must be object")),
        }
    }

    /// As the policy wrote it; empty where it takes no settings.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks settings, fills defaults in and flattens them to dotted paths.
    ///
    /// # Errors
    /// Everything that is wrong with them, in order.
    pub fn settle(&self, given: &Map<String, Json>) -> Result<Settings, Vec<SettingError>> {
        let mut out = Out::default();
        self.root.settle(&Json::Object(given.clone()), "", &mut out);
        if out.errors.is_empty() { Ok(out.settings) } else { Err(out.errors) }
    }
}

#[derive(Default)]
struct Out {
    settings: Settings,
    errors: Vec<SettingError>,
}

impl Out {
    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        self.errors.push(wrong(path, message));
    }
}

fn wrong(path: &str, message: impl Into<String>) -> SettingError {
    SettingError { path: path.to_owned(), message: message.into() }
}

fn under(path: &str, key: impl std::fmt::Display) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

impl Node {
    fn parse(json: &Json, path: &str) -> Result<Self, SettingError> {
        let mut words = Words::of(json, path)?;
        let shape = match words.text("type")?.as_deref() {
            Some("object") => Shape::object(&mut words)?,
            Some("array") => {
                let items = words.take("items").ok_or_else(|| wrong(path, "items is missing"))?;
                Shape::Array { items: Box::new(Self::parse(items, &under(path, "items"))?) }
            }
            Some("number") => Shape::Number { whole: false, range: words.range()? },
            Some("integer") => Shape::Number { whole: true, range: words.range()? },
            Some("string") => Shape::Text,
            Some("boolean") => Shape::Flag,
            _ => {
                let types = "object, array, number, integer, string or boolean";
                return Err(wrong(path, format!("its type must be one of {types}")));
            }
        };
        let one_of = match words.take("enum") {
            None => None,
            Some(Json::Array(values)) => Some(values.clone()),
            Some(_) => return Err(wrong(path, "enum must be a list")),
        };
        let default = words.take("default").cloned();
        words.done()?;
        let node = Self { shape, one_of, default };
        let mut out = Out::default();
        if let Some(default) = &node.default {
            node.settle(default, &under(path, "default"), &mut out);
        }
        out.errors.into_iter().next().map_or(Ok(node), Err)
    }

    fn settle(&self, json: &Json, path: &str, out: &mut Out) {
        if let Some(allowed) = &self.one_of
            && !allowed.contains(json)
        {
            let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
            out.wrong(path, format!("{json} is none of {}", allowed.join(", ")));
        }
        match (&self.shape, json) {
            (Shape::Object { properties, required, rest }, Json::Object(given)) => {
                for (key, value) in given {
                    let path = under(path, key);
                    match properties.get(key).or(rest.as_deref()) {
                        _ if key.contains('.') => out.wrong(&path, "a name must not have a dot"),
                        Some(node) => node.settle(value, &path, out),
                        None => out.wrong(&path, unknown(properties)),
                    }
                }
                for (key, node) in properties.iter().filter(|(key, _)| !given.contains_key(*key)) {
                    match &node.default {
                        Some(default) => node.settle(default, &under(path, key), out),
                        None if required.contains(key) => {
                            out.wrong(&under(path, key), "is missing");
                        }
                        None => {}
                    }
                }
            }
            (Shape::Array { items }, Json::Array(given)) => {
                for (index, value) in given.iter().enumerate() {
                    items.settle(value, &under(path, index), out);
                }
            }
            (Shape::Number { whole, range }, Json::Number(given)) => {
                let value = given.as_f64().unwrap_or(f64::NAN);
                if !value.is_finite() || (*whole && value.fract() != 0.0) {
                    out.wrong(path, format!("{given} is no whole number"));
                } else if let Some(bound) = range.broken_by(value) {
                    out.wrong(path, format!("{given} is not {bound}"));
                } else {
                    out.settings.set(path.to_owned(), Value::Number(value));
                }
            }
            (Shape::Text, Json::String(text)) => {
                out.settings.set(path.to_owned(), Value::Text(text.clone()));
            }
            (Shape::Flag, Json::Bool(flag)) => {
                out.settings.set(path.to_owned(), Value::Flag(*flag));
            }
            (shape, json) => out.wrong(path, format!("{json} is no {}", shape.name())),
        }
    }
}

fn unknown(properties: &BTreeMap<String, Node>) -> String {
    if properties.is_empty() {
        return "no such setting".to_owned();
    }
    let known: Vec<_> = properties.keys().map(String::as_str).collect();
    format!("no such setting; there are {}", known.join(", "))
}

impl Shape {
    const fn name(&self) -> &'static str {
        match self {
            Self::Object { .. } => "object",
            Self::Array { .. } => "list",
            Self::Number { .. } => "number",
            Self::Text => "text",
            Self::Flag => "true or false",
        }
    }

    fn object(words: &mut Words<'_>) -> Result<Self, SettingError> {
        let path = words.path.to_owned();
        let mut properties = BTreeMap::new();
        match words.take("properties") {
            None => {}
            Some(Json::Object(named)) => {
                for (key, json) in named {
                    properties.insert(key.clone(), Node::parse(json, &under(&path, key))?);
                }
            }
            Some(_) => return Err(wrong(&path, "properties must be an object")),
        }
        let required = match words.take("required") {
            None => BTreeSet::new(),
            Some(json) => serde_json::from_value(json.clone())
                .map_err(|_| wrong(&path, "required must be a list of names"))?,
        };
        if let Some(key) = required.iter().find(|key| !properties.contains_key(*key)) {
            return Err(wrong(&path, format!("required names {key}, which is no property")));
        }
        let rest = match words.take("additionalProperties") {
            None | Some(Json::Bool(false)) => None,
            Some(json @ Json::Object(_)) => {
                Some(Box::new(Node::parse(json, &under(&path, "additionalProperties"))?))
            }
            Some(_) => return Err(wrong(&path, "additionalProperties must be false or a schema")),
        };
        Ok(Self::Object { properties, required, rest })
    }
}

impl Range {
    /// The bound that a value is beyond.
    fn broken_by(&self, value: f64) -> Option<String> {
        match (self.low, self.high) {
            (Some((low, true)), _) if value <= low => Some(format!("above {low}")),
            (Some((low, false)), _) if value < low => Some(format!("at least {low}")),
            (_, Some((high, true))) if value >= high => Some(format!("below {high}")),
            (_, Some((high, false))) if value > high => Some(format!("at most {high}")),
            _ => None,
        }
    }
}

/// The keywords of one schema; what nobody took was not known.
struct Words<'a> {
    path: &'a str,
    left: BTreeMap<&'a str, &'a Json>,
}

impl<'a> Words<'a> {
    fn of(json: &'a Json, path: &'a str) -> Result<Self, SettingError> {
        let Json::Object(words) = json else { return Err(wrong(path, "must be an object")) };
        let rules = words.iter().filter(|(word, _)| !ANNOTATIONS.contains(&word.as_str()));
        Ok(Self { path, left: rules.map(|(word, json)| (word.as_str(), json)).collect() })
    }

    fn take(&mut self, word: &str) -> Option<&'a Json> {
        self.left.remove(word)
    }

    fn text(&mut self, word: &str) -> Result<Option<String>, SettingError> {
        match self.take(word) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(self.path, format!("{word} must be a text"))),
        }
    }

    fn number(&mut self, word: &str) -> Result<Option<f64>, SettingError> {
        let Some(json) = self.take(word) else { return Ok(None) };
        let number = json.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| wrong(self.path, format!("{word} must be a number")))
    }

    fn range(&mut self) -> Result<Range, SettingError> {
        let (minimum, above) = (self.number("minimum")?, self.number("exclusiveMinimum")?);
        let (maximum, below) = (self.number("maximum")?, self.number("exclusiveMaximum")?);
        if (minimum.is_some() && above.is_some()) || (maximum.is_some() && below.is_some()) {
            return Err(wrong(self.path, "give one bound a side"));
        }
        let bound = |inside: Option<f64>, outside: Option<f64>| {
            inside.map(|bound| (bound, false)).or(outside.map(|bound| (bound, true)))
        };
        Ok(Range { low: bound(minimum, above), high: bound(maximum, below) })
    }

    fn done(self) -> Result<(), SettingError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(word) => Err(wrong(self.path, format!("the host does not know the word {word}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOUNTS: &str = r#"{
        "type": "object",
        "properties": {
            "provider": {"type": "string", "enum": ["aws", "gcp"], "default": "aws"},
            "strict": {"type": "boolean"},
            "discounts": {"type": "object",
                          "additionalProperties": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}},
            "commitments": {"type": "array", "items": {"type": "object", "required": ["model"],
                "properties": {"model": {"type": "string"}, "years": {"type": "integer"}}}}
        },
        "required": ["discounts"]
    }"#;

    fn settle(json: &str) -> Result<String, String> {
        let given: Map<String, Json> = serde_json::from_str(json).unwrap();
        let show = |settings: &Settings| {
            let each = settings.iter().map(|(path, value)| format!("{path}={value:?}"));
            each.collect::<Vec<_>>().join(" ")
        };
        let join = |errors: Vec<SettingError>| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
        };
        Schema::parse(DISCOUNTS).unwrap().settle(&given).map(|ok| show(&ok)).map_err(join)
    }

    #[test]
    fn settings_are_flattened_with_their_defaults() {
        let given = r#"{"discounts": {"h100": 0.25},
                        "commitments": [{"model": "a100", "years": 3}], "strict": true}"#;
        let flat = r#"commitments.0.model=Text("a100") commitments.0.years=Number(3.0) discounts.h100=Number(0.25) provider=Text("aws") strict=Flag(true)"#;
        assert_eq!(settle(given).unwrap(), flat);
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let given = r#"{"provider": "azure", "strict": "yes", "discunts": {},
                        "commitments": [{"years": 1.5}]}"#;
        let told = [
            "commitments.0.years: 1.5 is no whole number",
            "commitments.0.model: is missing",
            "discunts: no such setting; there are commitments, discounts, provider, strict",
            r#"provider: "azure" is none of "aws", "gcp""#,
            r#"strict: "yes" is no true or false"#,
            "discounts: is missing",
        ];
        assert_eq!(settle(given).unwrap_err(), told.join(" | "));
        assert!(settle(r#"{"discounts": {"h100": 1}}"#).unwrap_err().contains("not below 1"));
        assert!(settle(r#"{"discounts": {"a.b": 0}}"#).unwrap_err().contains("dot"));
    }

    #[test]
    fn a_schema_that_could_not_be_enforced_is_refused() {
        for (schema, why) in [
            ("{", "EOF"),
            (r#"{"type": "string"}"#, "must be object"),
            (r#"{"type": "object", "minProperties": 1}"#, "minProperties"),
            (r#"{"type": "object", "required": ["a"]}"#, "no property"),
            (r#"{"type": "object", "properties": {"a": {"type": "null"}}}"#, "its type must"),
            (
                r#"{"type": "object", "properties": {"a": {"type": "number", "default": "x"}}}"#,
                "a.default",
            ),
        ] {
            let error = Schema::parse(schema).unwrap_err().to_string();
            assert!(error.contains(why), "{schema}: {error}");
        }
    }

    #[test]
    fn no_schema_takes_no_settings() {
        let none = Schema::parse("").unwrap();
        assert_eq!(none.settle(&Map::new()).unwrap(), Settings::default());
        let given: Map<String, Json> = serde_json::from_str(r#"{"a": 1}"#).unwrap();
        assert!(none.settle(&given).is_err());
    }
}
