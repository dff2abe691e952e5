//! The FOCUS export against the rules in `focus/rules.toml`, each of which has a row that violates it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "focus/divided.rs"]
mod divided;
#[path = "focus/parquet.rs"]
mod parquet;
mod reports;
#[path = "focus/rules.rs"]
mod rules;
#[path = "focus/text.rs"]
mod text;

use phasemeter_bill::focus::{CsvRows, FocusOptions, FocusWriter, TagFormat};
use phasemeter_meter::instant::Instant;
use reports::{Hour, gpu, parse, report, usd, working};
use rules::{Column, Row, rules, violations};
use serde_json::Value;

/// Cells of a line without line breaks.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => {
                if !is_quoted && cells.last().unwrap().ends_with('\u{1}') {
                    cells.last_mut().unwrap().pop();
                    cells.last_mut().unwrap().push('"');
                }
                is_quoted = !is_quoted;
                if !is_quoted {
                    cells.last_mut().unwrap().push('\u{1}');
                }
            }
            ',' if !is_quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells.into_iter().map(|cell| cell.replace('\u{1}', "")).collect()
}

/// The export of a report, and its effective cost in nano-dollars.
fn export(json: &Value) -> (Vec<Row>, i128) {
    export_with(json, TagFormat::Otel)
}

fn export_with(json: &Value, tags: TagFormat) -> (Vec<Row>, i128) {
    export_as(json, FocusOptions { tags, ..FocusOptions::default() })
}

fn export_as(json: &Value, options: FocusOptions) -> (Vec<Row>, i128) {
    let mut out = Vec::new();
    let rows = CsvRows::new(&mut out, &options).unwrap();
    let mut writer = FocusWriter::new(rows, options);
    writer.write(&parse(json).0).unwrap();
    let cost = writer.finish().unwrap().cost;
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines();
    let header = cells(lines.next().unwrap());
    let rows = lines.map(|line| header.iter().cloned().zip(cells(line)).collect());
    (rows.collect(), cost.0)
}

/// Three hours, the last with all accounts, on this plan.
fn usage(plan: &str) -> Value {
    let mixed = Hour {
        accounts: vec![
            ("idle_held", 600.0, 333_333_333),
            ("productive", 1_800.0, 1_000_000_000),
            ("unobserved", 1_200.0, 666_666_667),
        ],
        effective: 1_500.0,
        utilized: 800_000_000,
    };
    let attributes = [("team", "a, \"b\""), ("cloud.account.id", "123"), ("host.name", "node-1")];
    let mut json = report(&attributes, vec![gpu("a", 0, &[working(0.0), working(0.7), mixed])]);
    json["gpus"][0]["price"]["plan"] = plan.into();
    json
}

fn nanos(text: &str) -> i128 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{decimals:0<9}").parse().unwrap()
}

#[test]
fn export_follows_all_rules_on_every_plan() {
    let rules = rules();
    for plan in ["on_demand", "spot", "reserved_1y", "reserved_3y", "owned"] {
        let (rows, cost) = export(&usage(plan));
        assert_eq!(violations(&rules, &rows), Vec::<String>::new(), "{plan}");
        let sum: i128 = rows.iter().map(|row| nanos(&row["EffectiveCost"])).sum();
        assert_eq!((rows.len(), sum, cost), (3, 6_000_000_000, 6_000_000_000));
        let billed: i128 = rows.iter().map(|row| nanos(&row["BilledCost"])).sum();
        let is_prepaid = plan.starts_with("reserved") || plan == "owned";
        assert_eq!(billed, if is_prepaid { 0 } else { sum }, "{plan}");
        let tags: Value = serde_json::from_str(&rows[0]["Tags"]).unwrap();
        assert_eq!(tags["team"], "a, \"b\"");
        assert_eq!(rows[2]["x_WasteCost"], usd(533_333_333));
        let parts =
            ["IdleHeld", "IdleFree", "IdleUnknown", "Underutilized", "Productive", "ComputeBound"];
        let parts = parts
            .iter()
            .chain(&["Unobserved"])
            .map(|name| nanos(&rows[2][&format!("x_{name}Cost")]));
        assert_eq!(parts.sum::<i128>(), nanos(&rows[2]["EffectiveCost"]));
    }
}

/// A price that changed, or that came late, gives each period its own.
#[test]
fn unit_price_matches_cost_after_price_changes() {
    let mut json = usage("on_demand");
    json["gpus"][0]["earlier_prices_total"] = 1.into();
    json["gpus"][0]["rate_usd_per_gpu_hour"] = "9.000000000".into();
    assert_eq!(violations(&rules(), &export(&json).0), Vec::<String>::new());
    json["gpus"][0]["earlier_prices_total"] = 0.into();
    assert_eq!(violations(&rules(), &export(&json).0), Vec::<String>::new());
}

#[test]
fn each_rule_finds_its_broken_row() {
    let rules = rules();
    let valid = export(&usage("on_demand")).0;
    let mut checked = 0;
    let mut expect = |row: Row, expected: &str| {
        checked += 1;
        let found = violations(&rules, &[valid[0].clone(), row]);
        assert!(found.iter().any(|rule| rule == expected), "{expected}: found {found:?}");
    };
    for column in &rules.column {
        for (value, expected) in column.broken() {
            let mut row = valid[1].clone();
            match value {
                Some(value) => _ = row.insert(column.name.clone(), value.to_owned()),
                None => _ = row.remove(&column.name),
            }
            expect(row, &expected);
        }
    }
    for rule in &rules.rule {
        let mut row = valid[1].clone();
        row.extend(rule.broken.clone());
        expect(row, &rule.text);
    }
    println!("{checked} rules");
    assert!(checked >= 150, "{checked}");
}

#[test]
fn tags_are_those_of_a_cloud_if_wanted() {
    let tags = |format| -> Value {
        let (rows, _) = export_with(&usage("on_demand"), format);
        serde_json::from_str(&rows[0]["Tags"]).unwrap()
    };
    assert_eq!(tags(TagFormat::Otel)["team"], "a, \"b\"");
    let aws = tags(TagFormat::Aws);
    assert_eq!((&aws["team"], &aws["cloud.account.id"]), (&"a_ _b_".into(), &"123".into()));
    assert_eq!(tags(TagFormat::Azure)["team"], "a, \"b\"");
    let gcp = tags(TagFormat::Gcp);
    assert_eq!((&gcp["team"], &gcp["cloud_account_id"]), (&"a___b_".into(), &"123".into()));
}

/// Scenario: a period of a long run from 31 July, 18 h, to 1 August, 12 h; and one of 100 days.
/// Guarantee: each row is within its month, and the rows sum to the bill, account by account.
#[test]
fn period_over_the_end_of_a_month_is_divided_there() {
    let long = |start: &str, end: &str, hours: i128| {
        let mut gpu = gpu("0", 0, &[working(0.5)]);
        let (time, cost) = (hours as f64 * 3_600.0, hours * 2_000_000_001);
        gpu["cost_usd"] = usd(cost).into();
        gpu["periods"] = serde_json::json!([{
            "start": start, "end": end,
            "effective_seconds": time / 3.0, "utilized_usd": usd(cost / 3),
            "accounts": {
                "idle_free": { "seconds": time / 2.0, "cost_usd": usd(cost / 2) },
                "underutilized": { "seconds": time / 2.0, "cost_usd": usd(cost - cost / 2) },
            },
        }]);
        report(&[], vec![gpu])
    };
    for (start, end, hours, months) in [
        ("2026-07-31T18:00:00Z", "2026-08-01T12:00:00Z", 18, 2),
        ("2026-11-20T06:00:00Z", "2027-02-28T06:00:00Z", 2_400, 4),
        ("2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z", 744, 1),
    ] {
        let (rows, cost) = export(&long(start, end, hours));
        assert_eq!(rows.len(), months, "{start}");
        let sum = |name: &str| rows.iter().map(|row| nanos(&row[name])).sum::<i128>();
        assert_eq!((sum("EffectiveCost"), cost), (cost, hours * 2_000_000_001));
        assert_eq!(sum("x_IdleFreeCost") + sum("x_UnderutilizedCost"), cost);
        assert_eq!(sum("x_UtilizedCost"), cost / 3);
        assert_eq!(sum("ConsumedQuantity"), hours * 1_000_000_000);
        for row in &rows {
            let at = |name: &str| row[name].parse::<Instant>().unwrap();
            assert!(at("BillingPeriodStart") <= at("ChargePeriodStart"), "{row:?}");
            assert!(at("ChargePeriodEnd") <= at("BillingPeriodEnd"), "{row:?}");
        }
        assert_eq!(violations(&rules(), &rows), Vec::<String>::new());
    }
}

/// An estimated price stays one in the cost data of each period.
#[test]
fn estimated_cost_has_its_range() {
    let mut json = usage("on_demand");
    let (rows, _) = export(&json);
    assert!(rows.iter().all(|row| row["x_EffectiveCostLow"].is_empty()));
    json["gpus"][0]["price"]["estimate"] = serde_json::json!({
        "rows": 7, "anywhere": true,
        "low_usd_per_gpu_hour": "1.000000000", "high_usd_per_gpu_hour": "5.000000000",
    });
    let (rows, _) = export(&json);
    for row in &rows {
        let [low, cost, high] = ["x_EffectiveCostLow", "EffectiveCost", "x_EffectiveCostHigh"]
            .map(|name| nanos(&row[name]));
        assert_eq!([2 * low, 2 * high], [cost, 5 * cost], "{row:?}");
    }
    assert_eq!(violations(&rules(), &rows), Vec::<String>::new());
}

#[test]
fn gpu_without_price_has_no_rows() {
    let mut json = usage("on_demand");
    let gpu = &mut json["gpus"][0];
    gpu["cost_usd"] = Value::Null;
    for period in gpu["periods"].as_array_mut().unwrap() {
        period["utilized_usd"] = Value::Null;
        let accounts = period["accounts"].as_object_mut().unwrap();
        accounts.values_mut().for_each(|totals| totals["cost_usd"] = Value::Null);
    }
    let rows = CsvRows::new(Vec::new(), &FocusOptions::default()).unwrap();
    let mut writer = FocusWriter::new(rows, FocusOptions::default());
    writer.write(&parse(&json).0).unwrap();
    assert_eq!(writer.finish().unwrap().unpriced, 1);
}
