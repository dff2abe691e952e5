//! Work over time, and the attributes of the experiment, in the report.

use std::fs;

use serde_json::json;

use crate::logs::Plan;
use crate::phasemeter::{Outcome, Phasemeter};
use crate::report;

/// 70 minutes from 2026-07-26T23:59:57.25Z.
fn log() -> String {
    Plan { every: 60_000, ticks: 71, ..Plan::default() }.text()
}

/// An audit of that log with this work log.
fn audit_with(rows: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("work.csv");
    fs::write(&path, format!("time,unit,count\n{rows}")).unwrap();
    Phasemeter::audit().args(["-", "--work-log"]).arg(&path).stdin(log()).run()
}

/// Work whose cost is not in the bill would make the other cheaper than it is.
#[test]
fn work_outside_of_the_metered_time_does_not_count_and_is_stated() {
    let outcome = audit_with(
        "2026-07-26T23:00:00Z,samples,1000\n2026-07-27T00:30:00Z,samples,40\n\
         2026-07-27T01:10:50Z,samples,2\n2026-07-27T09:00:00Z,tokens,7\n",
    );
    let report = outcome.json();
    report::check(&report);
    assert_eq!(report["work"]["samples"]["count"], 42);
    assert!(report["work"]["tokens"].is_null(), "{}", report["work"]);
    let notes: Vec<&str> =
        report::list(&report["assumptions"]).iter().filter_map(|it| it.as_str()).collect();
    for outside in
        ["work.csv: 1000 of 1042 samples do not count", "work.csv: 7 of 7 tokens do not count"]
    {
        assert!(notes.iter().any(|note| note.contains(outside)), "{notes:?}");
    }
}

#[test]
fn work_log_of_another_day_is_rejected_with_both_spans() {
    let outcome = audit_with("2026-07-25T00:30:00Z,samples,40\n2026-07-25T00:40:00Z,samples,2\n");
    assert_eq!(outcome.status, 65);
    let line = outcome.error_line();
    assert!(
        line.contains("its work is from 2026-07-25T00:30:00Z to 2026-07-25T00:40:00Z"),
        "{line}"
    );
    assert!(
        line.contains("GPUs were metered from 2026-07-26T23:59:57.25Z to 2026-07-27T01:09:57."),
        "{line}"
    );
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
