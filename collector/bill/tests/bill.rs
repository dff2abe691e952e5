//! Bills of generated reports: they close to the nano-dollar, and count nothing twice.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

#[path = "bill/page.rs"]
mod page;
#[path = "bill/random.rs"]
mod random;
mod reports;

use std::collections::BTreeMap;

use phasemeter_bill::bill::{Bill, Biller, IdlePolicy, Payer, Row};
use phasemeter_bill::bill_json;
use phasemeter_bill::bill_text::render;
use phasemeter_bill::dimension::Dimension;
use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::invoice::Invoice;
use phasemeter_bill::read::read;
use phasemeter_meter::money::NanoUsd;
use proptest::prelude::*;
use reports::{Hour, gpu, parse, report, working};
use serde_json::Value;

fn by(text: &str) -> Vec<Dimension> {
    text.split(',').map(|name| name.parse().unwrap()).collect()
}

fn try_bill(reports: &[Value], by_text: &str, idle: IdlePolicy) -> Result<Bill, BillError> {
    let mut biller = Biller::new(by(by_text), idle);
    let names: Vec<_> = (0..reports.len()).map(|index| format!("{index}.json")).collect();
    for (json, name) in reports.iter().zip(&names) {
        let (report, digest) = parse(json);
        biller.add(name, &report, digest);
    }
    biller.finish(&names)
}

fn bill(reports: &[Value], by: &str) -> Bill {
    try_bill(reports, by, IdlePolicy::Spread).unwrap()
}

/// Totals by name, in nano-dollars.
fn totals(bill: &Bill) -> BTreeMap<String, i128> {
    let name = |payer: &Payer| match payer {
        Payer::Group(values) => {
            let values = values.iter().map(|value| value.as_deref().unwrap_or("?"));
            values.collect::<Vec<_>>().join(",")
        }
        Payer::Idle => "(idle)".to_owned(),
        Payer::Unobserved => "(unobserved)".to_owned(),
        Payer::Nobody => "(nobody)".to_owned(),
    };
    bill.rows.iter().map(|row| (name(&row.payer), row.total().0)).collect()
}

/// $20 of idle time without an owner; A works for 6 effective hours and B for 2.
fn worked_example() -> Vec<Value> {
    let idle = vec![working(0.0); 10];
    vec![
        report(&[("team", "A")], vec![gpu("a", 0, &[working(1.0), working(1.0), working(1.0)])]),
        report(&[("team", "A")], vec![gpu("a", 10, &[working(1.0), working(1.0), working(1.0)])]),
        report(&[("team", "B")], vec![gpu("b", 0, &[working(1.0), working(1.0)])]),
        report(&[], vec![gpu("c", 0, &idle)]),
    ]
}

#[test]
fn idle_without_owner_is_spread_by_effective_hours() {
    let bill = bill(&worked_example(), "team");
    let shares: Vec<_> = bill.rows.iter().map(|row| row.idle_share.0 / 1_000_000_000).collect();
    assert_eq!(shares, [15, 5, -20]);
    let dollars: Vec<_> = totals(&bill).values().map(|nanos| nanos / 1_000_000_000).collect();
    assert_eq!(dollars, [0, 27, 9]);
    let separate = try_bill(&worked_example(), "team", IdlePolicy::Separate).unwrap();
    assert_eq!(totals(&separate)["(idle)"], 20_000_000_000);
}

#[test]
fn idle_of_owner_is_the_owners() {
    let reports = [
        report(&[("team", "A")], vec![gpu("a", 0, &[working(0.0), working(0.5)])]),
        report(&[("team", "B")], vec![gpu("b", 0, &[working(0.5)])]),
    ];
    let totals = totals(&bill(&reports, "team"));
    assert_eq!((totals["A"], totals["B"]), (4_000_000_000, 2_000_000_000));
    assert!(!totals.contains_key("(idle)"));
}

#[test]
fn idle_is_an_account_if_nothing_worked() {
    let bill = bill(&[report(&[], vec![gpu("c", 0, &[working(0.0)])])], "team");
    assert_eq!(totals(&bill), BTreeMap::from([("(idle)".to_owned(), 2_000_000_000)]));
    assert!(bill.notes.iter().any(|note| note.contains("no group has effective time")));
}

#[test]
fn untagged_and_unobserved_are_accounts() {
    let mut hour = working(0.5);
    hour.accounts =
        vec![("underutilized", 1_800.0, 1_000_000_000), ("unobserved", 1_800.0, 1_000_000_000)];
    hour.effective = 900.0;
    hour.utilized = 500_000_000;
    let totals = totals(&bill(&[report(&[], vec![gpu("c", 0, &[hour])])], "team"));
    assert_eq!((totals["?"], totals["(unobserved)"]), (1_000_000_000, 1_000_000_000));
}

#[test]
fn bill_is_split_by_day_model_and_attribute() {
    let hours: Vec<Hour> = (0..30).map(|_| working(0.5)).collect();
    let reports = [report(&[("team", "A"), ("cost.center", "7")], vec![gpu("a", 20, &hours)])];
    let days = totals(&bill(&reports, "day"));
    assert_eq!(days["2026-07-27"], 4 * 2_000_000_000);
    assert_eq!(days["2026-07-28"], 24 * 2_000_000_000);
    assert_eq!(days["2026-07-29"], 2 * 2_000_000_000);
    let both = totals(&bill(&reports, "attribute:cost.center,model"));
    assert_eq!(both["7,NVIDIA H100 80GB HBM3"], 60_000_000_000);
}

#[test]
fn identical_report_counts_once() {
    let mut reports = worked_example();
    reports.push(reports[0].clone());
    let twice = bill(&reports, "team");
    assert_eq!(totals(&twice), totals(&bill(&worked_example(), "team")));
    assert_eq!(twice.notes, ["4.json is identical to another report and counts once"]);
}

#[test]
fn overlap_is_rejected_and_names_both_reports() {
    let mut reports = worked_example();
    reports.push(report(&[("team", "B")], vec![gpu("a", 2, &[working(0.2)])]));
    let error = try_bill(&reports, "team", IdlePolicy::Spread).unwrap_err().to_string();
    let expected =
        "0.json and 4.json: both bill the same GPU at 2026-07-27T02:00:00Z; remove one of them";
    assert_eq!(error, expected);
}

/// Without a UUID, host and index identify a GPU; without a host nothing does.
#[test]
fn gpu_without_uuid_is_identified_by_host_and_index() {
    let anonymous = |host: &[(&str, &str)], id| {
        let mut gpu = gpu(id, 0, &[working(0.5)]);
        gpu["uuid"] = Value::Null;
        report(host, vec![gpu])
    };
    let on = |host| [("host.name", host)];
    let (a, b) = (anonymous(&on("a"), "x"), anonymous(&on("b"), "y"));
    assert!(try_bill(&[a.clone(), b], "day", IdlePolicy::Spread).is_ok());
    assert!(try_bill(&[a, anonymous(&on("a"), "z")], "day", IdlePolicy::Spread).is_err());
    let unknown = bill(&[anonymous(&[], "x"), anonymous(&[], "z")], "day");
    assert!(
        unknown.notes[0].starts_with("2 GPUs have neither a UUID nor a host"),
        "{:?}",
        unknown.notes
    );
}

#[test]
fn two_values_of_a_dimension_are_noted() {
    let reports =
        [report(&[("team", "A"), ("phasemeter.team", "B")], vec![gpu("a", 0, &[working(0.5)])])];
    let bill = bill(&reports, "team");
    assert_eq!(totals(&bill).keys().collect::<Vec<_>>(), ["B"]);
    let expected = "0.json: phasemeter.team is \"B\" and team is \"A\"; the first counts";
    assert_eq!(bill.notes, [expected]);
}

/// Each has one wrong field; the message names the file, the field and what to do.
#[test]
fn malformed_report_is_rejected_with_its_field() {
    let good = report(&[("team", "A")], vec![gpu("a", 0, &[working(0.5), working(0.5)])]);
    let cases: [(&str, Value, &str); 12] = [
        ("/schema", "phasemeter.report/9".into(), "schema: is \"phasemeter.report/9\""),
        ("/gpus", "none".into(), "gpus: invalid type: string"),
        (
            "/gpus/0/cost_usd",
            "1.000000000".into(),
            "gpus[0].cost_usd: is 1.000000000, but its periods",
        ),
        ("/gpus/0/cost_usd", 4.into(), "gpus[0].cost_usd: invalid type: integer"),
        ("/gpus/0/cost_usd", "-4.000000000".into(), "gpus[0].cost_usd: invalid value"),
        ("/gpus/0/cost_usd", "9999999999999999.0".into(), "gpus[0].cost_usd: invalid value"),
        ("/gpus/0/cost_usd", Value::Null, "gpus[0].periods[0].accounts: have a cost"),
        (
            "/gpus/0/periods/1/start",
            "2026-07-27T00:30:00Z".into(),
            "gpus[0].periods[1].accounts: sum to",
        ),
        ("/gpus/0/periods/1/end", "tomorrow".into(), "gpus[0].periods[1].end: \"tomorrow\""),
        (
            "/gpus/0/periods/0/effective_seconds",
            9_999.into(),
            "gpus[0].periods[0].effective_seconds: exceeds",
        ),
        (
            "/gpus/0/periods/0/utilized_usd",
            "2.000000001".into(),
            "gpus[0].periods[0].utilized_usd: exceeds",
        ),
        (
            "/gpus/0/periods/0/accounts",
            serde_json::json!({ "lunch": 1 }),
            "unknown account \"lunch\"",
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        let error = read("a.json", bad.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("a.json: ") && error.contains(expected), "{error}");
        assert!(
            error.contains("; expected a report") || error.contains("; write the report"),
            "{error}"
        );
        assert!(!error.contains('\n'));
    }
    let text = good.to_string();
    for cut in [0, 1, text.len() / 2, text.len() - 1] {
        let error = read("a.json", &text.as_bytes()[..cut]).unwrap_err();
        assert!(matches!(error, ReadError::Field { .. }), "{error}");
    }
    assert!(read("a.json", format!("{text} trailing").as_bytes()).is_err());
    assert!(read("a.json", "[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn invoice_is_reconciled_line_by_line() {
    let bill = bill(&worked_example(), "team");
    let text = "team,billed_usd,note\nA,27.50,\"x, y\"\nC,1\n";
    let invoice = Invoice::read("i.csv", text.as_bytes(), &bill.by).unwrap().reconcile(&bill);
    let lines: Vec<_> = invoice
        .lines
        .iter()
        .map(|line| {
            (line.total.map(|it| it.0), line.billed.map(|it| it.0), line.difference().unwrap().0)
        })
        .collect();
    let b = 1_000_000_000;
    let expected = [
        (Some(27 * b), Some(27 * b + b / 2), b / 2),
        (Some(9 * b), None, -9 * b),
        (None, Some(b), b),
    ];
    assert_eq!(lines, expected);
    let page = render(&bill, Some(&invoice));
    assert!(page.contains("-$7.50   -20.8%"), "{page}");
    for (text, expected) in [
        ("", "i.csv, line 1: expected a header with the columns team, billed_usd"),
        ("team,usd\n", "i.csv, line 1: expected a header with the columns team, billed_usd"),
        (
            "team,billed_usd\nA,free\n",
            "i.csv, line 2: billed_usd: \"free\": expected dollars like 1234.56",
        ),
        ("team,billed_usd\n\"A,1\n", "i.csv, line 2: a quote is not closed"),
        (
            &format!("team,billed_usd,note\nA,1,{}\n", "A,1,".repeat(1 << 15)),
            "i.csv, line 2: it is longer than 65536 bytes",
        ),
    ] {
        let error = Invoice::read("i.csv", text.as_bytes(), &bill.by).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}
