//! Worked examples: results computed by hand, compared with the binary.

use std::fs;

use serde_json::Value;

use crate::logs::{Plan, Row};
use crate::phasemeter::Phasemeter;
use crate::report;

/// GPUs at a constant utilization in percent for 75 minutes.
fn constant_load(gpus: usize, percent: u64) -> String {
    let plan = Plan { gpus, ..Plan::default() };
    let rows: Vec<Row> = (0..=150)
        .flat_map(|tick| (0..gpus).map(move |gpu| (tick, gpu)))
        .map(|(tick, gpu)| Row {
            at: 1_785_110_400_000 + tick * 30_000,
            gpu,
            percent: Ok(percent),
            mebibytes: 40_000,
            power: 30_000,
        })
        .collect();
    plan.style().write(&rows)
}

fn audited(log: String, args: &[&str]) -> Value {
    let report = Phasemeter::audit().arg("-").args(args).stdin(log).report();
    report::check(&report);
    report
}

/// P = $8 per GPU-hour, H = 8 × 1.25 h, U = 0.6, S = 200,000.
#[test]
fn ten_gpu_hours_at_60_percent_yield_six_effective_gpu_hours() {
    let report = audited(constant_load(8, 60), &["--price", "8", "--work", "samples=200000"]);
    let cost = &report["cost"];
    assert_eq!(cost["gpu_hours"], 10.0);
    assert_eq!(cost["effective_gpu_hours"], 6.0);
    assert_eq!(cost["total_usd"], "80.000000000");
    assert_eq!(cost["utilized_usd"], "48.000000000");
    assert_eq!(cost["waste_usd"], "32.000000000");
    assert_eq!(cost["unobserved_usd"], "0.000000000");
    assert_eq!(cost["cost_per_effective_gpu_hour_usd"], "13.333333333");
    assert_eq!(report["work"]["samples"]["cost_each_usd"], "0.0004");
}

/// Four GPUs at 25% for 75 minutes equal one fully used GPU for as long.
#[test]
fn four_gpus_at_25_percent_equal_one_gpu() {
    let report = audited(constant_load(4, 25), &["--price", "4"]);
    assert_eq!(report["cost"]["effective_gpu_hours"], 1.25);
    assert_eq!(report["cost"]["utilized_usd"], "5.000000000");
}

/// Monthly is hourly × 24 × 30, yearly × 24 × 365.
#[test]
fn projections_use_30_and_365_days() {
    for (gpus, price, hourly, monthly, yearly) in [
        (8, "3.06", "24.480000000", "17625.600000000", "214444.800000000"),
        (1, "3.06", "3.060000000", "2203.200000000", "26805.600000000"),
        (1, "1.82", "1.820000000", "1310.400000000", "15943.200000000"),
        (8, "3", "24.000000000", "17280.000000000", "210240.000000000"),
        (8, "4", "32.000000000", "23040.000000000", "280320.000000000"),
        (8, "12.25", "98.000000000", "70560.000000000", "858480.000000000"),
    ] {
        let report = audited(constant_load(gpus, 0), &["--price", price]);
        let cost = &report["cost"];
        let projected = [&cost["hourly_usd"], &cost["monthly_usd"], &cost["yearly_usd"]];
        assert_eq!(projected, [hourly, monthly, yearly]);
        assert_eq!(cost["cost_per_effective_gpu_hour_usd"], Value::Null, "nothing was effective");
    }
}

/// $20 idle without an owner, a team with six effective hours and one with two: +$15 and +$5.
#[test]
fn idle_cost_is_spread_by_effective_hours() {
    let dir = tempfile::tempdir().unwrap();
    let reports =
        [("team=a", 60), ("team=b", 20), ("user.agent=none", 0)].map(|(owner, percent)| {
            let audit =
                Phasemeter::audit().args(["-", "--price", "2"]).stdin(constant_load(8, percent));
            let attributes = format!("{owner},host.name=node-{percent}");
            let path = dir.path().join(format!("{percent}.json"));
            fs::write(&path, audit.env("OTEL_RESOURCE_ATTRIBUTES", &attributes).run().out).unwrap();
            path
        });
    let bill = Phasemeter::new("bill").args(&reports).args(["--format", "json"]).run().json();
    let rows: Vec<_> = report::list(&bill["rows"])
        .iter()
        .map(|row| {
            let team = row["group"]["team"].as_str().unwrap_or("idle");
            (team, &row["effective_gpu_hours"], row["idle_share_usd"].as_str().unwrap())
        })
        .collect();
    let [six, two, none] = [6.0, 2.0, 0.0].map(Value::from);
    let expected = [("a", &six, "15.000000000"), ("b", &two, "5.000000000")];
    assert_eq!(rows, [expected[0], expected[1], ("idle", &none, "-20.000000000")]);
}

/// Thresholds are inclusive lower bounds.
#[test]
fn thresholds_are_inclusive_lower_bounds() {
    for (percent, phase) in [
        (0, "idle"),
        (9, "idle"),
        (10, "underutilized"),
        (69, "underutilized"),
        (70, "productive"),
        (89, "productive"),
        (90, "compute_bound"),
        (100, "compute_bound"),
    ] {
        let report = audited(constant_load(1, percent), &["--price", "1"]);
        assert_eq!(report["gpus"][0]["phases"][phase]["percent"], 100.0, "{percent}%");
    }
}

/// An instance's price is divided by its GPUs; the report names the source.
#[test]
fn instance_price_is_divided_by_gpu_count() {
    let args = ["--provider", "aws", "--region", "us-east-1", "--instance-type", "p5.48xlarge"];
    let report = audited(constant_load(8, 50), &args);
    let cost = &report["cost"];
    let rate = report::nanos(&cost["rate_usd_per_gpu_hour"]).unwrap();
    assert_eq!(report::nanos(&cost["hourly_usd"]), Some(rate * 8));
    let price = &cost["price"];
    assert_eq!((&price["provider"], &price["instance_type"]), (&args[1].into(), &args[5].into()));
    assert!(price["source"].as_str().is_some_and(|source| !source.is_empty()));
    assert!(price["as_of"].is_string() && price["estimate"].is_null(), "{price:#}");
}
