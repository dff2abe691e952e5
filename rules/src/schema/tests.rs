//! Schemas of settings: defaults, errors and budgets.

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

fn resolve(json: &str) -> Result<String, String> {
    let given: Map<String, Json> = serde_json::from_str(json).unwrap();
    let show = |settings: &Settings| {
        let each = settings.iter().map(|(path, value)| format!("{path}={value:?}"));
        each.collect::<Vec<_>>().join(" ")
    };
    let join = |errors: Vec<SettingError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
    };
    Schema::parse(DISCOUNTS).unwrap().resolve(&given).map(|ok| show(&ok)).map_err(join)
}

#[test]
fn settings_are_flattened_with_defaults() {
    let given = r#"{"discounts": {"h100": 0.25},
                    "commitments": [{"model": "a100", "years": 3}], "strict": true}"#;
    let flat = r#"commitments.0.model=Text("a100") commitments.0.years=Number(3.0) discounts.h100=Number(0.25) provider=Text("aws") strict=Flag(true)"#;
    assert_eq!(resolve(given).unwrap(), flat);
}

#[test]
fn resolve_reports_each_error() {
    let given = r#"{"provider": "azure", "strict": "yes", "discunts": {},
                    "commitments": [{"years": 1.5}]}"#;
    let errors = [
        "commitments.0.years: invalid value 1.5: expected an integer",
        "commitments.0.model: missing, but required",
        "discunts: unknown setting: expected one of commitments, discounts, provider, strict",
        r#"provider: invalid value "azure": expected one of "aws", "gcp""#,
        r#"strict: invalid value "yes": expected true or false"#,
        "discounts: missing, but required",
    ];
    assert_eq!(resolve(given).unwrap_err(), errors.join(" | "));
    let bound = resolve(r#"{"discounts": {"h100": 1}}"#).unwrap_err();
    assert!(bound.contains("expected below 1"), "{bound}");
    assert!(resolve(r#"{"discounts": {"a.b": 0}}"#).unwrap_err().contains("dot"));
}

#[test]
fn parse_rejects_unenforceable_schema() {
    for (schema, why) in [
        ("{", "EOF"),
        (r#"{"type": "string"}"#, "expected object"),
        (r#"{"type": "object", "minProperties": 1}"#, "minProperties"),
        (r#"{"type": "object", "required": ["a"]}"#, "not a property"),
        (r#"{"type": "object", "properties": {"a": {"type": "null"}}}"#, "invalid type"),
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
fn empty_schema_accepts_no_settings() {
    let none = Schema::parse("").unwrap();
    assert_eq!(none.resolve(&Map::new()).unwrap(), Settings::default());
    let given: Map<String, Json> = serde_json::from_str(r#"{"a": 1}"#).unwrap();
    assert!(none.resolve(&given).is_err());
}

#[test]
fn numbers_are_limited_by_bounds() {
    for (bound, accepted, rejected) in [
        (r#""minimum": 1"#, [1.0, 2.0], [0.9, -3.0]),
        (r#""exclusiveMinimum": 1"#, [1.1, 2.0], [1.0, -3.0]),
        (r#""maximum": 1"#, [1.0, -3.0], [1.1, 9.0]),
        (r#""exclusiveMaximum": 1"#, [0.9, -3.0], [1.0, 9.0]),
        (r#""minimum": 1, "maximum": 2"#, [1.0, 2.0], [0.9, 2.1]),
    ] {
        let number = format!(r#"{{"type": "number", {bound}}}"#);
        let text = format!(r#"{{"type": "object", "properties": {{"n": {number}}}}}"#);
        let schema = Schema::parse(&text).unwrap();
        assert_eq!(schema.text(), text);
        let is_accepted = |value: f64| {
            let given = Map::from_iter([("n".to_owned(), Json::from(value))]);
            schema.resolve(&given).is_ok()
        };
        assert!(accepted.into_iter().all(is_accepted), "{bound}");
        assert!(!rejected.into_iter().any(is_accepted), "{bound}");
    }
}

#[test]
fn parse_rejects_two_bounds_per_side() {
    let parse = |bounds: &str| {
        let number = format!(r#"{{"type": "number", {bounds}}}"#);
        Schema::parse(&format!(r#"{{"type": "object", "properties": {{"n": {number}}}}}"#))
    };
    assert!(parse(r#""minimum": 0, "exclusiveMinimum": 0"#).is_err());
    assert!(parse(r#""maximum": 1, "exclusiveMaximum": 1"#).is_err());
    assert!(parse(r#""exclusiveMinimum": 0, "maximum": 1"#).is_ok());
}

/// A schema of one property.
fn one(property: &str) -> String {
    format!(r#"{{"type": "object", "properties": {{"p": {property}}}}}"#)
}

const TOO_LARGE: &str =
    "settings: too large: more than 4096 values or 256 KiB of paths and text, defaults included";

/// Defaults of objects in arrays of defaults: a hundred times as many values per level.
#[test]
fn nested_defaults_do_not_multiply_beyond_budget() {
    let hundred = vec!["{}"; 100].join(",");
    let nested = (0..12).fold(r#"{"type": "number", "default": 1}"#.to_owned(), |inner, _| {
        let object = format!(r#"{{"type": "object", "properties": {{"p": {inner}}}}}"#);
        format!(r#"{{"type": "array", "items": {object}, "default": [{hundred}]}}"#)
    });
    assert!(nested.len() < 64 << 10);
    assert_eq!(Schema::parse(&one(&nested)).unwrap_err().to_string(), TOO_LARGE);
}

#[test]
fn large_default_with_large_enum_is_rejected() {
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let items = format!(r#"{{"type": "number", "enum": [{}]}}"#, numbers(4_000));
    let array = format!(r#"{{"type": "array", "items": {items}, "default": [{}]}}"#, numbers(90));
    assert_eq!(Schema::parse(&one(&array)).unwrap_err().to_string(), TOO_LARGE);
    // Each is accepted without the other.
    Schema::parse(&one(&items)).unwrap();
    let array = r#"{"type": "array", "items": {"type": "number"}, "default": [DEFAULT]}"#;
    let array = |count| one(&array.replace("DEFAULT", &numbers(count)));
    Schema::parse(&array(4_000)).unwrap();
    assert_eq!(Schema::parse(&array(5_000)).unwrap_err().to_string(), TOO_LARGE);
}

#[test]
fn long_paths_count_with_each_value() {
    let name = "n".repeat(4_000);
    let map = r#"{"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}"#;
    let schema = Schema::parse(map).unwrap();
    let resolve = |values: usize| {
        let given = Map::from_iter([(name.clone(), Json::from(vec![1; values]))]);
        schema.resolve(&given).map_err(|errors| errors[0].to_string())
    };
    resolve(60).unwrap();
    assert_eq!(resolve(66).unwrap_err(), TOO_LARGE);
}

#[test]
fn number_and_length_of_errors_are_limited() {
    let schema = Schema::parse(&one(&format!(
        r#"{{"type": "array", "items": {{"type": "string", "enum": [{}]}}}}"#,
        vec![r#""x""#; 100].join(",")
    )));
    let long = Json::from("y".repeat(1_000));
    let given = Map::from_iter([("p".to_owned(), Json::from(vec![long; 1_000]))]);
    let errors = schema.unwrap().resolve(&given).unwrap_err();
    assert_eq!(errors.len(), MAX_ERRORS);
    assert!(errors.iter().all(|error| error.message.len() < 200), "{}", errors[0]);
    assert!(errors[0].message.ends_with(" and 92 more"), "{}", errors[0]);
}

#[test]
fn deep_schema_is_rejected() {
    let deep = (0..2_000).fold(r#"{"type": "number"}"#.to_owned(), |inner, _| {
        format!(r#"{{"type": "array", "items": {inner}}}"#)
    });
    assert!(Schema::parse(&one(&deep)).unwrap_err().message.contains("recursion limit"));
}

/// Names and values of a file that may be any other file are not in errors about it.
#[test]
fn hidden_errors_have_what_the_schema_declares_only() {
    let schema = Schema::parse(DISCOUNTS).unwrap();
    let given = r#"{
        "token": "s3cret", "provider": "s3cret: expected x", "strict": {"password": 1},
        "discounts": {"db_password": "hunter2"},
        "commitments": [{"model": "a", "years": 1.5}, {"key": 1}]
    }"#;
    let given: Map<String, Json> = serde_json::from_str(given).unwrap();
    let errors = schema.resolve(&given).unwrap_err();
    assert!(errors.iter().any(|error| error.to_string().contains("s3cret")));
    let hidden: Vec<_> = errors.iter().map(|error| schema.hide(error).to_string()).collect();
    let text = hidden.join("\n");
    for secret in ["token", "s3cret", "password", "hunter2", "key", "1.5"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for shown in [
        "*: unknown setting: expected one of commitments, discounts, provider, strict",
        "discounts.*: invalid value: expected a number",
        "provider: invalid value: expected ",
        "commitments.0.years: invalid value: expected an integer",
        "commitments.1.*: unknown setting: expected one of model, years",
    ] {
        assert!(text.contains(shown), "{shown} not in {text}");
    }
}
