//! The queries of docs/queries.md, on Parquet files of many reports, against the CSV of the same bill.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use phasemeter_meter::csv::quoted_cells;
use serde_json::{Value, json};

use crate::logs::Plan;
use crate::phasemeter::Phasemeter;
use crate::report::{list, nanos};

const PAGE: &str = include_str!("../../docs/queries.md");

/// Nano-dollars of cost and waste by team and day.
type Costs = BTreeMap<(String, String), (i128, i128)>;

/// Writes reports of two months, each with its Parquet file, and returns them.
fn fleet(dir: &Path) -> Vec<PathBuf> {
    let mut reports = Vec::new();
    for (month, seed) in [("2026-07", 1), ("2026-08", 11)] {
        let partition = dir.join(format!("cost/month={month}"));
        fs::create_dir_all(&partition).unwrap();
        for (node, attributes) in ["team=vision", "team=speech", "user=ada"].iter().enumerate() {
            let plan = Plan {
                ticks: 400,
                seed: seed + node as u64,
                pause_after: 100,
                pause: 20 * 3_600_000,
                ..Plan::default()
            };
            let audit = Phasemeter::audit()
                .args(["-", "--price", "2.48"])
                .env("OTEL_RESOURCE_ATTRIBUTES", &format!("{attributes},host.name=node-{node}"))
                .stdin(plan.text())
                .run();
            let report = dir.join(format!("{month}-node-{node}.json"));
            fs::write(&report, audit.out.replace("2026-07-", &format!("{month}-"))).unwrap();
            let file = partition.join(format!("node-{node}.parquet"));
            let bill = Phasemeter::new("bill")
                .args([&report])
                .args(["--format", "focus", "--output", file.to_str().unwrap()])
                .run();
            assert_eq!((bill.status, bill.out.as_str()), (0, ""), "{}", bill.err);
            reports.push(report);
        }
    }
    reports
}

/// What the CSV of these reports has.
fn csv_costs(reports: &[PathBuf]) -> Costs {
    let outcome = Phasemeter::new("bill").args(reports).args(["--format", "focus"]).run();
    let mut lines = outcome.out.lines().map(|line| quoted_cells(line).unwrap());
    let header = lines.next().unwrap();
    let mut costs = Costs::new();
    for cells in lines {
        let row: BTreeMap<_, _> = header.iter().map(String::as_str).zip(cells).collect();
        let tags: Value = serde_json::from_str(&row["Tags"]).unwrap();
        let team = tags["team"].as_str().unwrap_or("(untagged)").to_owned();
        let sum = costs.entry((team, row["ChargePeriodStart"][..10].to_owned())).or_default();
        sum.0 += nanos(&json!(row["EffectiveCost"])).unwrap();
        sum.1 += nanos(&json!(row["x_WasteCost"])).unwrap();
    }
    costs
}

/// The query or code under this heading.
fn code(heading: &str) -> &'static str {
    let section = PAGE.split(&format!("# {heading}\n")).nth(1).unwrap();
    let block = section.split("```").nth(1).unwrap();
    block.split_once('\n').unwrap().1
}

/// What a script prints that runs the code under this heading.
fn engine_costs(python: &Path, dir: &Path, script: &[&str], heading: &str) -> Costs {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let (script, arguments) = script.split_first().unwrap();
    let mut child = Command::new(python)
        .arg(scripts.join(script))
        .args(arguments)
        .current_dir(dir)
        // Days are those of UTC wherever the query runs.
        .env("TZ", "America/Los_Angeles")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(code(heading).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{heading}");
    let rows = String::from_utf8(output.stdout).unwrap();
    let cost = |text: &str| {
        // ClickHouse prints no trailing zeros.
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        nanos(&json!(format!("{whole}.{decimals:0<9}"))).unwrap()
    };
    rows.lines()
        .map(|row| match &quoted_cells(row).unwrap()[..] {
            [team, day, costs, waste] => ((team.clone(), day.clone()), (cost(costs), cost(waste))),
            cells => panic!("{heading}: {cells:?}"),
        })
        .collect()
}

#[test]
fn queries_give_the_costs_of_the_bill() {
    let dir = tempfile::tempdir().unwrap();
    let reports = fleet(dir.path());
    let expected = csv_costs(&reports);
    let bill = |by: &str| {
        Phasemeter::new("bill").args(&reports).args(["--format", "json", "--by", by]).run().json()
    };
    let bill = bill("team,day");
    let total: i128 = expected.values().map(|(cost, _)| cost).sum();
    assert_eq!(Some(total), nanos(&bill["total"]["metered_usd"]));
    let mut teams = 0;
    for row in list(&bill["rows"]) {
        let (Some(team), Some(day)) = (row["group"]["team"].as_str(), row["group"]["day"].as_str())
        else {
            continue;
        };
        let costs = ["metered_usd", "waste_usd"].map(|name| nanos(&row[name]).unwrap());
        assert_eq!(expected[&(team.to_owned(), day.to_owned())], costs.into());
        teams += 1;
    }
    assert_eq!((teams, expected.len()), (16, 24), "two of three nodes have a team");

    let Some(toolchains) = std::env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty())
    else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: queries (no DuckDB, no ClickHouse, no pyiceberg): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    };
    for (environment, script, heading) in [
        ("sql", &["query.py", "duckdb"][..], "DuckDB"),
        ("sql", &["query.py", "clickhouse"], "ClickHouse"),
        ("iceberg", &["iceberg.py"], "Iceberg"),
    ] {
        let python = Path::new(&toolchains).join(environment).join("bin/python");
        assert_eq!(engine_costs(&python, dir.path(), script, heading), expected, "{heading}");
    }
}
