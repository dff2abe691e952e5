//! Bills of generated reports: they close to the nano-dollar, and count nothing twice.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

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

const SCHEMA: &str = include_str!("../src/bill.schema.json");

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
    ] {
        let error = Invoice::read("i.csv", text.as_bytes(), &bill.by).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn text_fits_80_columns_and_json_follows_its_schema() {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for dimensions in ["team", "day", "team,day,model", "experiment,attribute:x"] {
        let bill = bill(&worked_example(), dimensions);
        let text = render(&bill, None);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let mut json = Vec::new();
        bill_json::write(&bill, None, &mut json).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        if let Err(error) = validator.validate(&json) {
            panic!("{error} in {json:#}");
        }
    }
}

/// An amount of a page in cents; one below a cent is none.
fn cents(word: &str) -> Option<i128> {
    let word = word.trim_start_matches('~');
    let (sign, word) = word.strip_prefix('-').map_or((1, word), |word| (-1, word));
    if word.starts_with('<') {
        return Some(0);
    }
    let number = word.strip_prefix('$')?.replace([',', '.'], "");
    Some(sign * number.parse::<i128>().unwrap())
}

/// The amounts of each line that has any.
fn amounts(lines: &str) -> Vec<Vec<i128>> {
    let each = lines.lines().map(|line| line.split_whitespace().filter_map(cents).collect());
    each.filter(|amounts: &Vec<i128>| !amounts.is_empty()).collect()
}

/// What is printed adds up: rows across and down, the parts of the bill, and the invoice.
fn adds_up(page: &str) -> Result<(), TestCaseError> {
    let sections: Vec<&str> = page.split("\n\n").collect();
    let mut rows = amounts(sections[1]);
    let all = rows.pop().unwrap();
    let of = |row: &Vec<i128>| {
        let share = if row.len() == 3 { row[1] } else { 0 };
        (row[0], share, *row.last().unwrap())
    };
    for row in &rows {
        let (metered, share, total) = of(row);
        prop_assert_eq!(metered + share, total, "{}", page);
    }
    let sum =
        |part: fn((i128, i128, i128)) -> i128| rows.iter().map(|row| part(of(row))).sum::<i128>();
    prop_assert_eq!([sum(|it| it.0), sum(|it| it.2)], [all[0], all[1]], "{}", page);
    let (_, bill) = sections[2].split_once("Bill").unwrap();
    let bill: Vec<i128> =
        bill.split("Idle share").next().unwrap().split_whitespace().filter_map(cents).collect();
    prop_assert_eq!(bill[0], bill[1] + bill[2] + bill[3], "{}", page);
    prop_assert_eq!(bill[0], all[0], "{}", page);
    if let Some(invoice) = sections.get(3).filter(|it| it.contains("billed")) {
        let mut lines = amounts(invoice);
        let total = lines.pop().unwrap();
        let lines: Vec<_> = lines.into_iter().filter(|line| line.len() == 3).collect();
        for line in lines.iter().chain([&total]) {
            prop_assert_eq!(line[1] - line[0], line[2], "{}", page);
        }
        prop_assert_eq!(total[0], all[1], "{}", page);
    }
    Ok(())
}

/// Time without a price is never free, and an estimate is never exact.
#[test]
fn missing_and_estimated_prices_are_marked_and_named_with_their_report() {
    let mut unpriced = report(&[("team", "A")], vec![gpu("a", 0, &[working(0.5)])]);
    unpriced["gpus"][0]["cost_usd"] = Value::Null;
    let period = &mut unpriced["gpus"][0]["periods"][0];
    period["utilized_usd"] = Value::Null;
    period["accounts"]["underutilized"]["cost_usd"] = Value::Null;
    let mut estimated = report(&[("team", "B")], vec![gpu("b", 0, &[working(0.5)])]);
    estimated["gpus"][0]["price"]["estimate"] = serde_json::json!({
        "rows": 9, "anywhere": true,
        "low_usd_per_gpu_hour": "1.000000000", "high_usd_per_gpu_hour": "5.000000000",
    });
    let exact = report(&[("team", "C")], vec![gpu("c", 0, &[working(0.5)])]);
    let all = bill(&[unpriced.clone(), estimated, exact], "team");
    let page = render(&all, None);
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(line("A ").matches("no price").count(), 2, "{page}");
    assert_eq!(line("B ").matches("~$2.00").count(), 2, "{page}");
    assert!(line("C ").contains(" $2.00") && !line("C ").contains('~'), "{page}");
    assert_eq!(line("all ").matches("~$4.00").count(), 2, "{page}");
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "of them the bill is $3.00 to $7.00",
        "0.json: its GPU has no price; set --price when the report is written",
        "1.json: the price of its GPU is an estimate",
    ] {
        assert!(text.contains(part), "{page}");
    }
    let mut json = Vec::new();
    bill_json::write(&all, None, &mut json).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let row = |team: &str| {
        let rows = json["rows"].as_array().unwrap().iter();
        rows.clone().find(|row| row["group"]["team"] == team).unwrap().clone()
    };
    for name in ["metered_usd", "waste_usd", "total_usd"] {
        assert!(row("A")[name].is_null(), "{name}");
    }
    assert_eq!(row("B")["metered_range_usd"]["high"], "5.000000000");
    assert!(row("C")["metered_range_usd"].is_null());
    assert_eq!(json["total"]["metered_range_usd"]["low"], "3.000000000");
    let page = render(&bill(&[unpriced], "team"), None);
    assert!(!page.contains('$'), "{page}");
}

/// A report of random hours: attributes, first hour, and per GPU cost and time by account.
fn any_report(id: usize) -> impl Strategy<Value = Value> {
    let names =
        ["idle_held", "idle_free", "idle_unknown", "underutilized", "productive", "compute_bound"];
    let hour = (
        prop::collection::vec(0_i128..5_000_000_000, 7),
        prop::collection::vec(1_u32..1_000, 7),
        0.0..1.0_f64,
        0.0..1.0_f64,
    );
    let hour = hour.prop_map(move |(costs, weights, busy, used)| {
        let whole: u32 = weights.iter().sum();
        let mut seconds: Vec<f64> = weights
            .iter()
            .map(|it| (f64::from(*it) * 3_600.0 / f64::from(whole)).floor())
            .collect();
        seconds[6] += 3_600.0 - seconds.iter().sum::<f64>();
        let all = names.into_iter().chain(["unobserved"]);
        let accounts: Vec<_> = all
            .zip(seconds.iter().zip(&costs))
            .map(|(name, (time, cost))| (name, *time, *cost))
            .collect();
        let observed: i128 = costs[..6].iter().sum();
        Hour {
            accounts,
            effective: (busy * (3_600.0 - seconds[6])).floor(),
            utilized: ((observed as f64 * used) as i128).min(observed),
        }
    });
    let team = prop::sample::select(vec![None, Some("A"), Some("B"), Some("C")]);
    (team, 0_u64..50, prop::collection::vec(prop::collection::vec(hour, 1..4), 1..3)).prop_map(
        move |(team, first, gpus)| {
            let gpus = gpus
                .iter()
                .enumerate()
                .map(|(gpu_index, hours)| gpu(&format!("{id}-{gpu_index}"), first, hours));
            let team: Vec<_> = team.into_iter().map(|team| ("team", team)).collect();
            report(&team, gpus.collect())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changed bytes are rejected in one line, or give a report whose bill closes.
    #[test]
    fn damaged_report_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        json in any_report(0),
    ) {
        let mut bytes = json.to_string().into_bytes();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        match read("a.json", &bytes[..]) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok((report, digest)) => {
                let mut biller = Biller::new(by("team,day"), IdlePolicy::Spread);
                biller.add("a.json", &report, digest);
                let bill = biller.finish(&["a.json"]).unwrap();
                prop_assert_eq!(bill.rows.iter().map(Row::total).sum::<NanoUsd>(), bill.sum.cost);
            }
        }
    }

    /// What a page prints adds up, also beside an invoice.
    #[test]
    fn printed_amounts_add_up(
        reports in (1_usize..8).prop_flat_map(|count| (0..count).map(any_report).collect::<Vec<_>>()),
        by_text in prop::sample::select(vec!["team", "day", "team,day", "gpu", "user,model"]),
        billed in prop::collection::vec(0_u64..10_000_000_000, 3),
    ) {
        let bill = bill(&reports, by_text);
        adds_up(&render(&bill, None))?;
        if by_text == "team" {
            let lines = ["A", "B", "D"].into_iter().zip(&billed);
            let lines = lines.map(|(team, nanos)| format!("{team},{}\n", reports::usd(i128::from(*nanos))));
            let text = format!("team,billed_usd\n{}", lines.collect::<String>());
            let invoice = Invoice::read("i.csv", text.as_bytes(), &bill.by).unwrap();
            adds_up(&render(&bill, Some(&invoice.reconcile(&bill))))?;
        }
    }

    /// Whatever a bill is split by, its rows sum to the reports, to the nano-dollar.
    #[test]
    fn bill_sums_to_reports(
        reports in (1_usize..8).prop_flat_map(|count| (0..count).map(any_report).collect::<Vec<_>>()),
        by in prop::sample::select(vec!["team", "day", "team,day", "gpu", "experiment", "user,model"]),
        separate in any::<bool>(),
    ) {
        let idle = if separate { IdlePolicy::Separate } else { IdlePolicy::Spread };
        let bill = try_bill(&reports, by, idle).unwrap();
        let field = |name: &str| -> i128 {
            let gpus = reports.iter().flat_map(|report| report["gpus"].as_array().unwrap());
            let texts = gpus.map(|gpu| gpu[name].as_str().unwrap().replace('.', ""));
            texts.map(|text| text.parse::<i128>().unwrap()).sum()
        };
        let total: NanoUsd = bill.rows.iter().map(Row::total).sum();
        prop_assert_eq!(total.0, field("cost_usd"));
        prop_assert_eq!(bill.sum.cost, total);
        let hours: usize = reports
            .iter()
            .flat_map(|report| report["gpus"].as_array().unwrap())
            .map(|gpu| gpu["periods"].as_array().unwrap().len())
            .sum();
        prop_assert_eq!(bill.sum.time, hours as u128 * 3_600_000_000_000);
        for row in &bill.rows {
            prop_assert!(row.total() >= NanoUsd::ZERO);
            prop_assert!(row.metered.waste() >= NanoUsd::ZERO, "{:?}", row);
            prop_assert!(row.metered.effective <= row.metered.time);
        }
    }
}
