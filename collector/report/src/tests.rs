//! Reports as text and as JSON, against the schema and by their sums.

use std::sync::LazyLock;

use jsonschema::Validator;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Utilization};
use proptest::prelude::*;
use serde_json::Value;

use super::bar::Bars;
use super::test_fleet::*;
use super::text::TextOptions;
use super::{Input, RejectedRow, Report, json, text};

pub(super) fn text_of(input: &Input<'_>) -> String {
    text::render(&Report::build(input), &Bars::of(input), &TextOptions::default())
}

fn json_text_of(input: &Input<'_>) -> String {
    let mut written = Vec::new();
    json::write(&Report::build(input), &mut written).unwrap();
    String::from_utf8(written).unwrap()
}

/// The JSON report, validated against the schema.
pub(super) fn json_of(input: &Input<'_>) -> Value {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let schema = serde_json::from_str(include_str!("report.schema.json")).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    let report: Value = serde_json::from_str(&json_text_of(input)).unwrap();
    let errors: Vec<String> = SCHEMA
        .iter_errors(&report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert_eq!(errors, [""; 0]);
    report
}

fn training() -> Vec<TestGpu> {
    let held = every_second(697, |second| if second % 60 == 5 { 14 } else { 2 });
    vec![
        TestGpu::new(0, user_price("3"), &held),
        TestGpu::new(1, user_price("3"), &every_second(697, bouncing)),
    ]
}

fn mixed() -> Vec<TestGpu> {
    let mut dropping = every_second(3_600, |_| 82);
    lose(&mut dropping, 1_000, 1_720);
    dropping.drain(2_500..2_650);
    let early: Vec<Reading> = (0..1_800).map(|second| full_reading(second, 35, 30_000)).collect();
    let mut gpus = vec![
        TestGpu::new(0, estimated(), &every_second(3_600, bouncing)),
        TestGpu::new(1, estimated(), &every_second(3_600, |_| 97)),
        TestGpu::new(2, estimated(), &dropping),
        TestGpu::new(3, user_price("2.5"), &early),
        TestGpu::new(4, unpriced(), &every_second(3_600, |second| u32::from(second < 400) * 50)),
    ];
    gpus[4].identity.model = Some("NVIDIA H100X".to_owned());
    gpus
}

#[test]
fn training_run() {
    let gpus = training();
    let mut input = input("train.csv", &gpus);
    input.work = vec![("samples".to_owned(), 200_000), ("epochs".to_owned(), 3)];
    let report = json_of(&input);
    assert_eq!(report["gpus"][1]["pattern"]["kind"], "bouncing");
    insta::assert_snapshot!(text_of(&input));
    insta::assert_snapshot!("training_run_as_json", json_text_of(&input));
}

#[test]
fn partly_priced_fleet() {
    let gpus = mixed();
    let mut input = input("4 files", &gpus);
    input.work = vec![("tokens".to_owned(), 12_000_000)];
    input.provenance.rejected_total = 12;
    input.provenance.rejected_rows = (0..12)
        .map(|row| RejectedRow {
            file: "node-7/nvidia-smi.csv".to_owned(),
            line: 17 + row * 400,
            reason: "5 cells where the header has 7".to_owned(),
        })
        .collect();
    input.provenance.assumptions = vec![
        "local times are read as UTC; set --utc-offset if they are not".to_owned(),
        "readings are stale after 3 s, three times the reading interval".to_owned(),
    ];
    input.provenance.sampling = vec!["tick lateness p50 0.05 ms; 0 ticks missed".to_owned()];
    input.provenance.delivery = vec!["traces, grpc to localhost:4317: 7 spans sent".to_owned()];
    let report = json_of(&input);
    assert_eq!(report["cost"]["rate_usd_per_gpu_hour"], Value::Null);
    assert_eq!(report["cost"]["price"], Value::Null);
    assert_eq!(report["gpus"][0]["price"]["stale"], true);
    assert_eq!(report["gpus"][4]["cost_usd"], Value::Null);
    assert_eq!(report["work"]["tokens"]["cost_each_usd"], Value::Null);
    insta::assert_snapshot!(text_of(&input));
}

#[test]
fn color_changes_only_escape_codes() {
    let gpus = mixed();
    let input = input("4 files", &gpus);
    let colored = {
        let options = TextOptions { color: true, ..TextOptions::default() };
        text::render(&Report::build(&input), &Bars::of(&input), &options)
    };
    let mut plain = colored.clone();
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    assert_ne!(colored, plain);
    assert_eq!(plain, text_of(&input));
}

/// Power does not replace utilization: time without utilization is unobserved, with its energy.
#[test]
fn power_only_and_single_reading_are_unobserved() {
    let power: Vec<Reading> = (0..=90)
        .map(|second| Reading {
            utilization: Err(MissingReason::NotCollected),
            ..full_reading(second, 0, 1_000)
        })
        .collect();
    let gpus =
        [TestGpu::new(0, unpriced(), &power), TestGpu::new(1, unpriced(), &[reading(30, 50)])];
    let input = input("power.csv", &gpus);
    let report = json_of(&input);
    assert_eq!(report["gpus"][0]["unobserved_seconds"], 90.0);
    assert_eq!(report["gpus"][0]["utilization"]["basis"], Value::Null);
    assert_eq!(report["gpus"][0]["phases"]["idle"]["percent"], Value::Null);
    assert_eq!(report["gpus"][0]["energy_joules"], 27_000.0);
    assert_eq!(report["gpus"][1]["span_seconds"], 0.0);
    assert_eq!(report["cost"]["total_usd"], Value::Null);
    insta::assert_snapshot!(text_of(&input));
}

/// Held and free are null, not zero, if neither memory nor processes were ever known.
#[test]
fn holding_is_null_if_unknown() {
    let idle: Vec<Reading> = (0..=60).map(|second| reading(second, 0)).collect();
    let busy: Vec<Reading> = (0..=60).map(|second| reading(second, 95)).collect();
    let held: Vec<Reading> = (0..=60).map(|second| full_reading(second, 0, 60_000)).collect();
    let known = |gpus: &[TestGpu]| {
        let report = json_of(&input("holding.csv", gpus));
        let known = |phases: &Value| !phases["idle_held"].is_null();
        let each = report["gpus"].as_array().unwrap().iter().map(|gpu| known(&gpu["phases"]));
        (each.collect::<Vec<_>>(), known(&report["fleet"]["phases"]))
    };
    let gpu = |index, readings| TestGpu::new(index, user_price("1"), readings);
    assert_eq!(known(&[gpu(0, &idle), gpu(1, &held)]), (vec![false, true], true));
    assert_eq!(known(&[gpu(0, &busy), gpu(1, &held)]), (vec![false, true], true));
    assert_eq!(known(&[gpu(0, &busy)]), (vec![false], false));
}

/// Idle is held + free + unknown, in a row each, if memory is known for part of the time.
#[test]
fn idle_has_three_rows_if_holding_is_partly_unknown() {
    let readings: Vec<Reading> = (0..=90)
        .map(|second| match second {
            0..30 => reading(second, 0),
            30..50 => full_reading(second, 0, 60_000),
            _ => full_reading(second, 0, 10),
        })
        .collect();
    let gpus = [TestGpu::new(0, user_price("3.6"), &readings)];
    let input = input("partly.csv", &gpus);
    let phases = &json_of(&input)["fleet"]["phases"];
    let rows = ["idle", "idle_held", "idle_free", "idle_unknown"].map(|row| &phases[row]);
    let shown = rows.map(|row| (row["seconds"].as_f64().unwrap(), row["cost_usd"].clone()));
    let expected = [
        (90.0, "0.090000000"),
        (20.0, "0.020000000"),
        (40.0, "0.040000000"),
        (30.0, "0.030000000"),
    ];
    assert_eq!(shown, expected.map(|(seconds, cost)| (seconds, Value::from(cost))));
    let text = text_of(&input);
    for row in ["  held by a job ", "  free for others ", "  unknown "] {
        let rows = text.lines().filter(|line| line.starts_with(row));
        assert_eq!(rows.count(), 1, "{row}: {text}");
    }
}

/// The example of "GPU Utilization and Cost Analytics": $8 per GPU-hour, 8 × 1.25 h at 60%.
#[test]
fn effective_gpu_hours_match_worked_example() {
    let readings: Vec<Reading> =
        (0..=150).map(|tick| full_reading(tick * 30, 60, 60_000)).collect();
    let gpus: Vec<TestGpu> =
        (0..8).map(|index| TestGpu::new(index, user_price("8"), &readings)).collect();
    let mut input = input("example.csv", &gpus);
    input.work = vec![("samples".to_owned(), 200_000)];
    let report = json_of(&input);
    let cost = &report["cost"];
    assert_eq!(cost["gpu_hours"], 10.0);
    assert_eq!(cost["effective_gpu_hours"], 6.0);
    assert_eq!(cost["total_usd"], "80.000000000");
    assert_eq!(cost["utilized_usd"], "48.000000000");
    assert_eq!(cost["waste_usd"], "32.000000000");
    assert_eq!(cost["waste_by_category_usd"]["underload"], "32.000000000");
    assert_eq!(cost["cost_per_effective_gpu_hour_usd"], "13.333333333");
    assert_eq!(report["work"]["samples"]["cost_each_usd"], "0.0004");
    assert_eq!(cost["hourly_usd"], "64.000000000");
    assert_eq!(cost["monthly_usd"], "46080.000000000");
    assert_eq!(cost["yearly_usd"], "560640.000000000");
    assert_eq!(cost["rate_usd_per_gpu_hour"], "8.000000000");
    assert_eq!(cost["price"]["source"], "given on the command line");
    assert_eq!(report["fleet"]["phases"]["underutilized"]["percent"], 100.0);
    assert_eq!(report["gpus"][7]["utilization"]["mean"], 60.0);
    let text = text_of(&input);
    for expected in ["$80.00 = $48.00 utilized", "6 of 10 GPU-hours", "$13.33 per", "$0.0004 each"]
    {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn empty_fleet() {
    let input = input("empty.csv", &[]);
    json_of(&input);
    insta::assert_snapshot!(text_of(&input));
}

/// Nano-dollars of a decimal string with nine decimals.
#[track_caller]
pub(super) fn nanos(value: &Value) -> i128 {
    let (whole, decimals) = value.as_str().unwrap().split_once('.').unwrap();
    assert_eq!(decimals.len(), 9);
    format!("{whole}{decimals}").parse().unwrap()
}

fn sum(of: &Value, fields: &[&str]) -> i128 {
    fields.iter().map(|field| nanos(&of[field])).sum()
}

/// Asserts that the accounts of a GPU or of the fleet sum to its bill.
#[track_caller]
fn assert_adds_up(bill: &Value, money: &Value, phases: &Value) {
    let each = ["idle", "underutilized", "productive", "compute_bound"];
    let observed: i128 = each.iter().map(|phase| nanos(&phases[phase]["cost_usd"])).sum();
    assert_eq!(nanos(bill), observed + nanos(&money["unobserved_usd"]));
    assert_eq!(nanos(bill), sum(money, &["utilized_usd", "waste_usd", "unobserved_usd"]));
    let categories = sum(&money["waste_by_category_usd"], &["starvation", "idle", "underload"]);
    assert_eq!(nanos(&money["waste_usd"]), categories);
    if !phases["idle"]["percent"].is_null() {
        let tenths = |phase| (phases[phase]["percent"].as_f64().unwrap() * 10.0).round();
        assert_eq!(each.iter().map(tenths).sum::<f64>().to_string(), "1000");
    }
}

fn any_reading() -> impl Strategy<Value = (u64, Reading)> {
    let pause = prop_oneof![0..5_000_u64, Just(1_000), 0..10_000_000_000_u64];
    let utilization = prop_oneof![
        4 => (0..=100_u32).prop_map(|percent| Ok(Utilization::from_percent(percent).unwrap())),
        1 => prop::sample::select(MissingReason::ALL.to_vec()).prop_map(Err),
    ];
    let memory = prop::option::of((0..100_000_u64).prop_map(|n| Bytes::from_mebibytes(n).unwrap()));
    (pause, utilization, memory).prop_map(|(pause, utilization, memory_used)| {
        (pause, Reading { utilization, memory_used, ..empty_reading(0) })
    })
}

fn any_gpu() -> impl Strategy<Value = TestGpu> {
    let readings = prop::collection::vec(any_reading(), 0..80);
    let price = prop_oneof![
        prop::sample::select(vec!["0", "0.000000001", "3", "10000"]).prop_map(user_price),
        Just(()).prop_map(|()| estimated()),
        Just(()).prop_map(|()| unpriced()),
    ];
    let name = (any::<String>(), prop::option::of(any::<String>()));
    (readings, price, name, prop::option::of(0..3_u32)).prop_map(|(steps, price, name, index)| {
        let mut at = empty_reading(0).at;
        let readings: Vec<Reading> = steps
            .into_iter()
            .map(|(pause, reading)| {
                at = at + phasemeter_meter::units::Nanos::from_millis(pause);
                Reading { at, ..reading }
            })
            .collect();
        let mut gpu = TestGpu::new(0, price, &readings);
        gpu.identity.index = index;
        (gpu.identity.name, gpu.identity.model) = name;
        gpu
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// For any readings, names and prices: the page is at most 80 columns wide, the JSON is valid,
    /// and accounts sum to the bill to the nano-dollar, per GPU and for the fleet.
    #[test]
    fn reports_fit_and_accounts_sum_to_bill(
        gpus in prop::collection::vec(any_gpu(), 0..5),
        words in prop::collection::vec(any::<String>(), 3),
        work in prop::option::of((any::<String>(), any::<u64>())),
    ) {
        let mut input = input(&words[0], &gpus);
        input.experiment.id.clone_from(&words[1]);
        input.provenance.assumptions = vec![words[2].repeat(9)];
        input.provenance.sampling = vec![words[1].clone()];
        input.provenance.delivery = vec![words[0].clone()];
        input.provenance.rejected_rows = vec![RejectedRow {
            file: words[1].clone(),
            line: u64::MAX,
            reason: words[2].clone(),
        }];
        input.provenance.rejected_total = u64::MAX;
        input.work = work.into_iter().collect();
        assert_fits(&text_of(&input));
        let report = json_of(&input);
        let priced = gpus.iter().filter(|gpu| gpu.price.is_ok()).count();
        let mut total = 0;
        for gpu in report["gpus"].as_array().unwrap() {
            if gpu["unpriced_reason"].is_null() {
                assert_adds_up(&gpu["cost_usd"], gpu, &gpu["phases"]);
                total += nanos(&gpu["cost_usd"]);
            }
        }
        if priced > 0 {
            let cost = &report["cost"];
            assert_adds_up(&cost["total_usd"], cost, &report["fleet"]["phases"]);
            prop_assert_eq!(nanos(&cost["total_usd"]), total);
        } else {
            prop_assert!(report["cost"]["total_usd"].is_null());
        }
        prop_assert_eq!(report["cost"]["unpriced_reason"].is_null(), priced == gpus.len());
    }
}
