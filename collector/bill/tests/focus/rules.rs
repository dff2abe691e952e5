//! The rules of FOCUS in `rules.toml`: what each column and row must be.

use std::collections::BTreeMap;

use phasemeter_meter::instant::Instant;
use serde::Deserialize;
use serde_json::Value;

/// A row: a value by column; empty for null.
pub(crate) type Row = BTreeMap<String, String>;

#[derive(Deserialize)]
pub(crate) struct Rules {
    pub(crate) column: Vec<Column>,
    pub(crate) rule: Vec<Rule>,
}

/// A column, and the rules that follow from it.
#[derive(Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) null: Option<String>,
    pub(crate) values: Option<Vec<String>>,
    /// Mandatory, conditional or recommended, if the table has it.
    pub(crate) level: Option<String>,
    /// Why it is absent.
    pub(crate) absent: Option<String>,
}

/// A rule about several columns.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Rule {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) when: Row,
    #[serde(default)]
    pub(crate) column: String,
    pub(crate) must: String,
    #[serde(default)]
    pub(crate) other: String,
    #[serde(default)]
    pub(crate) values: Vec<String>,
    pub(crate) broken: Row,
}

pub(crate) fn rules() -> Rules {
    toml::from_str(include_str!("rules.toml")).unwrap()
}

/// The violations of all rules by rows that follow `valid` ones.
pub(crate) fn violations(rules: &Rules, rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for column in &rules.column {
        for row in rows {
            found.extend(column.violations(row));
        }
    }
    for rule in &rules.rule {
        if rows.iter().any(|row| rule.is_violated(row, rows, rules)) {
            found.push(rule.text.clone());
        }
    }
    found
}

fn is_valid(kind: &str, value: &str) -> bool {
    let decimal = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits.split('.').count() <= 2 && digits.split('.').all(plain)
    };
    match kind {
        "decimal" => decimal(value),
        "non_negative" => decimal(value) && !value.starts_with('-'),
        "date_time" => value.parse::<Instant>().is_ok(),
        "currency" => value.len() == 3 && value.bytes().all(|b| b.is_ascii_uppercase()),
        "json" => matches!(serde_json::from_str(value), Ok(Value::Object(_))),
        "key_value" => match serde_json::from_str(value) {
            Ok(Value::Object(map)) => {
                map.values().all(|value| !value.is_object() && !value.is_array())
            }
            _ => false,
        },
        "string" => value.trim() == value,
        kind => panic!("unknown type {kind}"),
    }
}

impl Column {
    fn violations(&self, row: &Row) -> Vec<String> {
        let name = &self.name;
        let Some(value) = row.get(name) else { return vec![format!("{name} is present")] };
        let mut found = Vec::new();
        if value.is_empty() {
            if self.null.as_deref() == Some("never") {
                found.push(format!("{name} is not null"));
            }
            return found;
        }
        if !is_valid(&self.kind, value) {
            found.push(format!("{name} is of its type"));
        }
        if self.values.as_ref().is_some_and(|values| !values.contains(value)) {
            found.push(format!("{name} is one of its values"));
        }
        found
    }

    /// Changes to a valid row, and the rule that each violates. A value of `None` removes the column.
    pub(crate) fn broken(&self) -> Vec<(Option<&'static str>, String)> {
        let name = &self.name;
        let mut broken = vec![(None, format!("{name} is present"))];
        if self.null.as_deref() == Some("never") {
            broken.push((Some(""), format!("{name} is not null")));
        }
        if self.values.is_some() {
            broken.push((Some("something else"), format!("{name} is one of its values")));
        }
        let invalid = match self.kind.as_str() {
            "decimal" => "1,234.5",
            "non_negative" => "-1",
            "date_time" => "2026-07-27 00:00",
            "currency" => "Dollar",
            "key_value" => r#"{"a":{"b":1}}"#,
            _ => " padded ",
        };
        broken.push((Some(invalid), format!("{name} is of its type")));
        broken
    }
}

impl Rule {
    fn is_violated(&self, row: &Row, rows: &[Row], rules: &Rules) -> bool {
        let cell = |name: &str| row.get(name).map(String::as_str).unwrap_or_default();
        let holds = |(name, expected): (&String, &String)| match expected.as_str() {
            "*" => !cell(name).is_empty(),
            expected => cell(name) == expected,
        };
        if !self.when.iter().all(holds) {
            return false;
        }
        let (value, other) = (cell(&self.column), cell(&self.other));
        let number = |text: &str| text.parse::<f64>().ok();
        let instant = |text: &str| text.parse::<Instant>().ok();
        match self.must.as_str() {
            "null" => !value.is_empty(),
            "not_null" => value.is_empty(),
            "one_of" => !self.values.iter().any(|expected| expected == value),
            "equal" => number(value) != number(other),
            "differ" => !value.is_empty() && value == other,
            "after" => instant(value) <= instant(other),
            "within" => instant(value) >= instant(other),
            "product" => match (number(value), number(other), number(cell("PricingQuantity"))) {
                (Some(cost), Some(price), Some(quantity)) => (price * quantity - cost).abs() > 2e-5,
                _ => false,
            },
            "known_keys" => match serde_json::from_str(value) {
                Ok(Value::Object(map)) => {
                    !map.keys().all(|key| key.starts_with("x_") || self.values.contains(key))
                }
                _ => false,
            },
            "one_parent" => rows.iter().any(|it| {
                it.get(&self.column) == row.get(&self.column)
                    && it.get(&self.other) != row.get(&self.other)
            }),
            "custom_names" => {
                let known = |name: &String| rules.column.iter().any(|column| column.name == *name);
                !row.keys().all(|name| name.starts_with("x_") || known(name))
            }
            must => panic!("unknown requirement {must}"),
        }
    }
}
