//! Checks a document against a schema, with the lines of all problems. It implements the part of JSON Schema that
//! OpenTelemetry's schema uses, and is stricter where a misspelled key would have no effect.

use serde_json::{Map, Value as Json};

use crate::finding::{Finding, Problem, similar};
use crate::node::{Entry, Kind, Node, Scalar, Value};
use crate::yaml::join;

/// The key below which the names are those of distributions.
const DISTRIBUTION: &str = "distribution";

/// All problems of a document.
pub(crate) fn check(root: &Node, schema: &Json) -> Vec<Finding> {
    let mut checker = Checker { schema, findings: Vec::new() };
    checker.node(root, schema, "");
    checker.findings
}

struct Checker<'a> {
    schema: &'a Json,
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn node(&mut self, node: &Node, schema: &'a Json, path: &str) {
        let schema = self.resolved(schema);
        if let Some(alternatives) = schema.get("oneOf").and_then(Json::as_array) {
            let fits = |alternative| check_alone(node, alternative, self.schema);
            if !alternatives.iter().any(fits) {
                let expected = "expected a text, a number, a boolean, or a list of one of them";
                self.refuse(node, path, expected.to_owned());
            }
            return;
        }
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|name| is_of(node, name)) {
            self.refuse(node, path, format!("expected {}", described(&types)));
            return;
        }
        match &node.value {
            Value::Scalar(_) => self.scalar(node, schema, path),
            Value::Sequence(items) => self.sequence(node, items, schema, path),
            Value::Mapping(entries) => self.mapping(node, entries, schema, path),
        }
    }

    fn scalar(&mut self, node: &Node, schema: &Json, path: &str) {
        let Some(text) = node.text() else { return };
        if let Some(known) = schema.get("enum").and_then(Json::as_array) {
            let known: Vec<_> = known.iter().filter_map(Json::as_str).collect();
            if !known.contains(&text.as_str()) {
                self.refuse(node, path, format!("expected one of {}", known.join(", ")));
            }
        }
        let Some(number) = node.scalar().and_then(Scalar::number) else { return };
        let bound = |name: &str| schema.get(name).and_then(Json::as_f64);
        let (least, most, above) = (bound("minimum"), bound("maximum"), bound("exclusiveMinimum"));
        let is_in = least.is_none_or(|least| number >= least)
            && most.is_none_or(|most| number <= most)
            && above.is_none_or(|above| number > above);
        if !is_in {
            let least = least.map(|least| format!("at least {least}"));
            let above = above.map(|above| format!("above {above}"));
            let most = most.map(|most| format!("at most {most}"));
            let bounds: Vec<_> = [least, above, most].into_iter().flatten().collect();
            self.refuse(node, path, format!("expected a number, {}", bounds.join(", ")));
        }
    }

    fn sequence(&mut self, node: &Node, items: &[Node], schema: &'a Json, path: &str) {
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            self.refuse(node, path, format!("expected at least {least} item"));
        }
        let Some(of) = schema.get("items") else { return };
        for (index, item) in items.iter().enumerate() {
            self.node(item, of, &format!("{path}[{index}]"));
        }
    }

    fn mapping(&mut self, node: &Node, entries: &[Entry], schema: &'a Json, path: &str) {
        let properties = schema.get("properties").and_then(Json::as_object);
        let names = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let others = schema.get("additionalProperties");
        let any_name = others.is_some_and(Json::is_object)
            && (names().next().is_none() || path == DISTRIBUTION);
        for entry in entries {
            let key = join(path, &entry.key);
            let name = similar(&entry.key, names());
            match (properties.and_then(|it| it.get(&entry.key)), others) {
                (Some(of), _) => self.node(&entry.node, of, &key),
                (None, Some(of)) if any_name && name.is_none() => self.node(&entry.node, of, &key),
                (None, None) => {}
                _ => self.findings.push(Finding::new(entry.line, key, Problem::Unknown(name))),
            }
        }
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        for name in required.filter_map(Json::as_str) {
            if node.get(name).is_none() {
                let problem = Problem::Missing(name.to_owned());
                self.findings.push(Finding::new(node.line, path.to_owned(), problem));
            }
        }
        let bound = |name: &str| schema.get(name).and_then(Json::as_u64);
        let count = entries.len() as u64;
        match (bound("minProperties"), bound("maxProperties")) {
            (Some(least), _) if count < least => {
                self.refuse(node, path, "expected a key".to_owned());
            }
            (_, Some(most)) if count > most => {
                self.refuse(node, path, "expected one key".to_owned());
            }
            _ => {}
        }
    }

    fn resolved(&self, schema: &'a Json) -> &'a Json {
        let target = schema.get("$ref").and_then(Json::as_str);
        let found = target.and_then(|target| self.schema.pointer(target.trim_start_matches('#')));
        found.unwrap_or(schema)
    }

    fn refuse(&mut self, node: &Node, path: &str, expected: String) {
        self.findings.push(Finding::new(node.line, path.to_owned(), Problem::Value(expected)));
    }
}

fn check_alone(node: &Node, schema: &Json, root: &Json) -> bool {
    let mut checker = Checker { schema: root, findings: Vec::new() };
    // The alternatives have no references.
    checker.node(node, schema, "");
    checker.findings.is_empty()
}

fn types(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(name)) => vec![name],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether a value has a type. A number where a text is expected is its text: a token may be all digits.
fn is_of(node: &Node, name: &str) -> bool {
    match &node.value {
        Value::Mapping(_) => name == "object",
        Value::Sequence(_) => name == "array",
        Value::Scalar(scalar) => match name {
            "null" => scalar.kind == Kind::Null,
            "boolean" => scalar.kind == Kind::Boolean,
            "integer" => scalar.kind == Kind::Integer,
            "number" => matches!(scalar.kind, Kind::Integer | Kind::Float),
            "string" => scalar.kind != Kind::Null,
            _ => false,
        },
    }
}

fn described(types: &[&str]) -> String {
    let words = types.iter().filter(|name| **name != "null").map(|name| match *name {
        "object" => "a mapping",
        "array" => "a list",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "a text",
    });
    words.collect::<Vec<_>>().join(" or ")
}
