//! FOCUS 1.2 against FinOps' own validator, whose known false failures are in `known-failures.json`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::logs::Plan;
use crate::phasemeter::Phasemeter;

const KNOWN: &str = include_str!("../focus-validator/known-failures.json");

#[derive(Deserialize)]
struct KnownFailures {
    failure: Vec<KnownFailure>,
}

#[derive(Deserialize)]
struct KnownFailure {
    files: Vec<String>,
    rules: Vec<String>,
    reason: String,
}

/// Writes the cost data of a report of each plan, with the account of an AWS customer.
fn export(dir: &Path) {
    let plans = ["on_demand", "spot", "reserved_1y", "reserved_3y", "owned"];
    let reports = plans.iter().enumerate().map(|(node, plan)| {
        let log = Plan {
            ticks: 400,
            seed: 1,
            pause_after: 100,
            pause: 20 * 3_600_000,
            ..Plan::default()
        };
        let attributes = format!("team=vision,cloud.account.id=123456789012,host.name=node-{node}");
        let audit = Phasemeter::audit()
            .args(["-", "--price", "2.48", "--plan", plan])
            .env("OTEL_RESOURCE_ATTRIBUTES", &attributes)
            .stdin(log.text())
            .run();
        let report = dir.join(format!("{plan}.json"));
        fs::write(&report, audit.out).unwrap();
        report
    });
    let reports: Vec<PathBuf> = reports.collect();
    let files: [(&str, &[&str]); 3] = [
        ("cost.parquet", &[]),
        ("invoiced.parquet", &["--invoice-id", "2026-07-A"]),
        ("invoiced.csv", &["--invoice-id", "2026-07-A"]),
    ];
    for (file, invoice) in files {
        let bill = Phasemeter::new("bill")
            .args(&reports)
            .args(["--format", "focus", "--output", dir.join(file).to_str().unwrap()])
            .args(invoice)
            .run();
        assert_eq!((bill.status, bill.out.as_str()), (0, ""), "{}", bill.err);
    }
}

#[test]
fn focus_validator_finds_known_failures_only() {
    let dir = tempfile::tempdir().unwrap();
    export(dir.path());
    let known: KnownFailures = serde_json::from_str(KNOWN).unwrap();
    assert!(known.failure.iter().all(|known| !known.reason.is_empty()));
    let Some(toolchains) = std::env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty())
    else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: FOCUS validator (not installed): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    };
    let environment = Path::new(&toolchains).join("focus");
    // It opens a file of its package relative to the current directory.
    let packages = environment.join("lib/python3.12/site-packages");
    for file in ["cost.parquet", "invoiced.parquet", "invoiced.csv"] {
        let output = Command::new(environment.join("bin/focus-validator"))
            .arg("--data-file")
            .arg(dir.path().join(file))
            .args(["--validate-version", "1.2.0.1", "--block-download"])
            .current_dir(&packages)
            .env("PYTHONIOENCODING", "utf-8")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rules = |outcome: &str| -> BTreeSet<&str> {
            let lines =
                text.lines().filter_map(|line| line.split_once(outcome)?.0.split(' ').nth(1));
            lines.collect()
        };
        let of_file = known.failure.iter().filter(|known| known.files.iter().any(|it| it == file));
        let expected: BTreeSet<&str> =
            of_file.flat_map(|known| known.rules.iter().map(String::as_str)).collect();
        assert_eq!(rules(": FAIL"), expected, "{file}: {text}");
        assert!(rules(": PASS").len() >= 130, "{file}: {text}");
    }
}
