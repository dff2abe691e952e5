//! Work over time, and the attributes of the experiment, in the report.

use std::fs;

use serde_json::json;

use crate::logs::Plan;
use crate::phasemeter::Phasemeter;
use crate::report;

fn log() -> String {
    Plan { ticks: 50, ..Plan::default() }.text()
}

#[test]
fn work_log_is_reported_by_hour_with_its_total() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("work.csv");
    let rows = "time,unit,count\n2026-07-27T00:59:59Z,samples,40\n2026-07-27T01:00:00Z,samples,2\n";
    fs::write(&path, rows).unwrap();
    let outcome = Phasemeter::audit().args(["-", "--work-log"]).arg(&path).stdin(log()).run();
    let report = outcome.json();
    report::check(&report);
    assert_eq!(
        report["work_by_hour"],
        json!([
            { "start": "2026-07-27T00:00:00Z", "work": { "samples": 40 } },
            { "start": "2026-07-27T01:00:00Z", "work": { "samples": 2 } },
        ])
    );
    assert_eq!(report["work"]["samples"]["count"], 42);
}

#[test]
fn invalid_work_log_is_rejected_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("work.csv");
    fs::write(&path, "time,unit,count\nyesterday,samples,1\n").unwrap();
    let audit = |path| Phasemeter::audit().args(["-", "--work-log"]).arg(path).stdin(log()).run();
    let outcome = audit(&path);
    assert_eq!(outcome.status, 65);
    let line = outcome.error_line();
    assert!(
        line.contains("work.csv, line 2: time \"yesterday\": expected a time in UTC"),
        "{line}"
    );
    assert_eq!(audit(&dir.path().join("none.csv")).status, 66);
}

#[test]
fn report_contains_attributes_of_experiment() {
    let outcome = Phasemeter::audit()
        .arg("-")
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=vision,k8s.namespace.name=research")
        .stdin(log())
        .run();
    let attributes = &outcome.json()["experiment"]["attributes"];
    assert_eq!(attributes["team"], "vision");
    assert_eq!(attributes["k8s.namespace.name"], "research");
}
