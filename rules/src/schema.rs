//! The schema of a policy's settings: a subset of JSON Schema, evaluated by the host so that guests
//! need no JSON parser.
//!
//! Loading rejects unknown keywords, because a constraint that is not enforced is worse than none.
//! Defaults may nest, and so multiply: all work on a schema, and on settings, is within a [`Budget`],
//! and stops at the first errors.

mod keywords;
mod limits;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use self::keywords::{Keywords, Range};
use self::limits::{Budget, MAX_ERRORS, MEMBERS_PER_VALUE, error, first, quote};
use crate::settings::{SettingError, Settings, Value};

/// A settings schema. The default accepts no settings.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
    text: String,
}

#[derive(Clone, Debug)]
struct Node {
    shape: Shape,
    allowed: Option<Vec<Json>>,
    default: Option<Json>,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `rest` is the schema of unnamed properties; `None` if there must be none.
    Object {
        properties: BTreeMap<String, Node>,
        required: BTreeSet<String>,
        rest: Option<Box<Node>>,
    },
    Array {
        items: Box<Node>,
    },
    Number {
        integer: bool,
        range: Range,
    },
    Text,
    Flag,
}

impl Default for Schema {
    fn default() -> Self {
        let shape =
            Shape::Object { properties: BTreeMap::new(), required: BTreeSet::new(), rest: None };
        let root = Node { shape, allowed: None, default: None };
        Self { root, text: String::new() }
    }
}

impl Schema {
    /// Parses a schema. An empty text accepts no settings.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON Schema of an object, or has unsupported keywords.
    /// The path of the error is a path in the schema.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let json = serde_json::from_str(text).map_err(|source| error("", source.to_string()))?;
        let root = Node::parse(&json, "", &mut Budget::default())?;
        match root.shape {
            Shape::Object { .. } => Ok(Self { root, text: text.to_owned() }),
            _ => Err(error("", "invalid type: expected object")),
        }
    }

    /// The schema's source text; empty if it accepts no settings.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Validates settings, fills in defaults, and flattens them to dotted paths.
    ///
    /// # Errors
    /// Returns the first problems, in the order of the settings.
    pub fn resolve(&self, given: &Map<String, Json>) -> Result<Settings, Vec<SettingError>> {
        let mut budget = Budget::default();
        let mut resolved = Resolved::within(&mut budget);
        // Stops if the budget is exhausted or there are enough errors; both are in the result.
        let _ = self.root.resolve(&Json::Object(given.clone()), "", &mut resolved);
        if resolved.errors.is_empty() { Ok(resolved.settings) } else { Err(resolved.errors) }
    }
}

impl Schema {
    /// An error without names and values of the settings: only what the schema declares.
    #[must_use]
    pub fn hide(&self, error: &SettingError) -> SettingError {
        let SettingError { path, message } = error;
        let message = match message.rsplit_once(EXPECTED) {
            Some((problem, expected)) if problem.starts_with(INVALID) => {
                format!("{INVALID}{EXPECTED}{expected}")
            }
            _ => message.clone(),
        };
        SettingError { path: self.root.hide(path), message }
    }
}

/// How errors about a value begin, before it, and go on after it.
const INVALID: &str = "invalid value";
const EXPECTED: &str = ": expected ";

/// Resolving ends: the budget is exhausted, or there are enough errors.
struct Stop;

struct Resolved<'b> {
    budget: &'b mut Budget,
    settings: Settings,
    errors: Vec<SettingError>,
}

impl<'b> Resolved<'b> {
    fn within(budget: &'b mut Budget) -> Self {
        Self { budget, settings: Settings::default(), errors: Vec::new() }
    }

    fn error(&mut self, path: &str, message: impl Into<String>) -> Result<(), Stop> {
        self.errors.push(error(path, message));
        if self.errors.len() < MAX_ERRORS { Ok(()) } else { Err(Stop) }
    }

    fn take(&mut self, values: usize, bytes: usize) -> Result<(), Stop> {
        self.budget.take(values, bytes).map_err(|exhausted| {
            self.errors.push(exhausted);
            Stop
        })
    }
}

fn child(path: &str, key: impl std::fmt::Display) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

impl Node {
    /// A path with `*` for each name that is not declared.
    fn hide(&self, path: &str) -> String {
        let mut node = Some(self);
        let mut shown = String::new();
        for name in path.split('.').filter(|name| !name.is_empty()) {
            let (declared, next) = match node.map(|node| &node.shape) {
                Some(Shape::Object { properties, rest, .. }) => {
                    let declared = properties.get(name);
                    (declared.is_some(), declared.or(rest.as_deref()))
                }
                Some(Shape::Array { items }) => (name.parse::<usize>().is_ok(), Some(&**items)),
                _ => (false, None),
            };
            shown = child(&shown, if declared { name } else { "*" });
            node = next;
        }
        shown
    }

    fn parse(json: &Json, path: &str, budget: &mut Budget) -> Result<Self, SettingError> {
        budget.take(1, path.len())?;
        let mut keywords = Keywords::of(json, path)?;
        let shape = match keywords.text("type")?.as_deref() {
            Some("object") => Shape::object(&mut keywords, budget)?,
            Some("array") => {
                let items = keywords.take("items").ok_or_else(|| error(path, "missing items"))?;
                let items = Self::parse(items, &child(path, "items"), budget)?;
                Shape::Array { items: Box::new(items) }
            }
            Some("number") => Shape::Number { integer: false, range: keywords.range()? },
            Some("integer") => Shape::Number { integer: true, range: keywords.range()? },
            Some("string") => Shape::Text,
            Some("boolean") => Shape::Flag,
            _ => {
                let types = "object, array, number, integer, string or boolean";
                return Err(error(path, format!("invalid type: expected {types}")));
            }
        };
        let allowed = match keywords.take("enum") {
            None => None,
            Some(Json::Array(values)) => {
                budget.take(values.len(), 0)?;
                Some(values.clone())
            }
            Some(_) => return Err(error(path, "invalid enum: expected an array")),
        };
        let default = keywords.take("default").cloned();
        keywords.finish()?;
        let node = Self { shape, allowed, default };
        let mut resolved = Resolved::within(budget);
        if let Some(default) = &node.default {
            let _ = node.resolve(default, &child(path, "default"), &mut resolved);
        }
        resolved.errors.into_iter().next().map_or(Ok(node), Err)
    }

    /// Checks a value, and adds its settings or errors.
    fn resolve(&self, json: &Json, path: &str, out: &mut Resolved<'_>) -> Result<(), Stop> {
        let members = self.allowed.as_ref().map_or(0, Vec::len);
        out.take(1 + members / MEMBERS_PER_VALUE, path.len())?;
        if let Some(allowed) = &self.allowed
            && !allowed.contains(json)
        {
            let (value, expected) = (quote(&json.to_string()), first(allowed.iter()));
            out.error(path, format!("invalid value {value}: expected one of {expected}"))?;
        }
        match (&self.shape, json) {
            (Shape::Object { properties, required, rest }, Json::Object(given)) => {
                for (key, value) in given {
                    let path = child(path, key);
                    match properties.get(key).or(rest.as_deref()) {
                        _ if key.contains('.') => {
                            out.error(&path, "invalid name: must not contain a dot")?;
                        }
                        Some(node) => node.resolve(value, &path, out)?,
                        None => out.error(&path, unknown_setting(properties))?,
                    }
                }
                for (key, node) in properties.iter().filter(|(key, _)| !given.contains_key(*key)) {
                    match &node.default {
                        Some(default) => node.resolve(default, &child(path, key), out)?,
                        None if required.contains(key) => {
                            out.error(&child(path, key), "missing, but required")?;
                        }
                        None => {}
                    }
                }
            }
            (Shape::Array { items }, Json::Array(given)) => {
                for (index, value) in given.iter().enumerate() {
                    items.resolve(value, &child(path, index), out)?;
                }
            }
            (Shape::Number { integer, range }, Json::Number(given)) => {
                let value = given.as_f64().unwrap_or(f64::NAN);
                if !value.is_finite() || (*integer && value.fract() != 0.0) {
                    out.error(path, format!("invalid value {given}: expected an integer"))?;
                } else if let Some(bound) = range.violated_bound(value) {
                    out.error(path, format!("invalid value {given}: expected {bound}"))?;
                } else {
                    out.settings.insert(path.to_owned(), Value::Number(value));
                }
            }
            (Shape::Text, Json::String(text)) => {
                out.take(0, text.len())?;
                out.settings.insert(path.to_owned(), Value::Text(text.clone()));
            }
            (Shape::Flag, Json::Bool(flag)) => {
                out.settings.insert(path.to_owned(), Value::Flag(*flag));
            }
            (shape, json) => {
                let value = quote(&json.to_string());
                out.error(path, format!("invalid value {value}: expected {}", shape.expected()))?;
            }
        }
        Ok(())
    }
}

fn unknown_setting(properties: &BTreeMap<String, Node>) -> String {
    if properties.is_empty() {
        return "unknown setting: expected none".to_owned();
    }
    format!("unknown setting: expected one of {}", first(properties.keys()))
}

impl Shape {
    const fn expected(&self) -> &'static str {
        match self {
            Self::Object { .. } => "an object",
            Self::Array { .. } => "an array",
            Self::Number { .. } => "a number",
            Self::Text => "a string",
            Self::Flag => "true or false",
        }
    }

    fn object(keywords: &mut Keywords<'_>, budget: &mut Budget) -> Result<Self, SettingError> {
        let path = keywords.path.to_owned();
        let mut properties = BTreeMap::new();
        match keywords.take("properties") {
            None => {}
            Some(Json::Object(named)) => {
                for (key, json) in named {
                    let node = Node::parse(json, &child(&path, key), budget)?;
                    properties.insert(key.clone(), node);
                }
            }
            Some(_) => return Err(error(&path, "invalid properties: expected an object")),
        }
        let required = match keywords.take("required") {
            None => BTreeSet::new(),
            Some(json) => serde_json::from_value(json.clone())
                .map_err(|_| error(&path, "invalid required: expected an array of strings"))?,
        };
        if let Some(key) = required.iter().find(|key| !properties.contains_key(*key)) {
            return Err(error(&path, format!("invalid required: {key} is not a property")));
        }
        let rest = match keywords.take("additionalProperties") {
            None | Some(Json::Bool(false)) => None,
            Some(json @ Json::Object(_)) => {
                Some(Box::new(Node::parse(json, &child(&path, "additionalProperties"), budget)?))
            }
            Some(_) => {
                return Err(error(
                    &path,
                    "invalid additionalProperties: expected false or a schema",
                ));
            }
        };
        Ok(Self::Object { properties, required, rest })
    }
}

#[cfg(test)]
mod tests;
