//! Text of the FOCUS CSV, which others choose.

use phasemeter_bill::csv::read_text;
use serde_json::Value;

use super::{export, rules, usage};

/// The names of the columns of a type.
fn columns_of(kind: &str) -> Vec<String> {
    let columns = rules().column.into_iter().filter(|column| column.kind == kind);
    columns.map(|column| column.name).collect()
}

#[test]
fn text_is_no_formula_and_numbers_are_numbers() {
    let mut json = usage("on_demand");
    json["experiment"]["id"] = Value::from("=cmd|' /C calc'!A0");
    json["experiment"]["attributes"]["host.name"] = Value::from("@\u{1b}[2J\u{9b}");
    json["gpus"][0]["name"] = Value::from("-1+2");
    let (rows, _) = export(&json);
    let numbers: Vec<_> = columns_of("decimal");
    for row in &rows {
        assert_eq!(row["x_ExperimentId"], "'=cmd|' /C calc'!A0");
        assert_eq!(read_text(&row["x_ExperimentId"]), "=cmd|' /C calc'!A0");
        for (name, cell) in row {
            assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{name}: {cell}");
            assert!(!cell.contains(char::is_control), "{name}: {cell:?}");
        }
        for number in numbers.iter().filter(|name| !row[*name].is_empty()) {
            assert!(row[number].parse::<f64>().is_ok(), "{number}: {}", row[number]);
        }
        let tags: Value = serde_json::from_str(&row["Tags"]).unwrap();
        assert_eq!(tags["host.name"], "@\u{1b}[2J\u{9b}");
    }
}
