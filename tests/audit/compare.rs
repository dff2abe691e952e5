//! `phasemeter compare` on reports of the binary itself.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::phasemeter::{Outcome, Phasemeter};

const COLUMNS: &str = "timestamp, index, name, utilization.gpu [%]\n";

/// The report of two days at this utilization, with this work each hour.
fn report(dir: &Path, name: &str, samples: impl Fn(u64) -> u64) -> PathBuf {
    let (mut log, mut work) = (COLUMNS.to_owned(), "time,unit,count\n".to_owned());
    for minute in 0..48 * 60 {
        let (day, hour, minute) = (27 + minute / 1_440, minute / 60 % 24, minute % 60);
        let busy = 60 + (hour * 7 + minute) % 20;
        writeln!(log, "2026/07/{day} {hour:02}:{minute:02}:00.000, 0, NVIDIA L4, {busy}").unwrap();
        if minute == 30 {
            let count = samples((day - 27) * 24 + hour);
            writeln!(work, "2026-07-{day}T{hour:02}:30:00Z,samples,{count}").unwrap();
        }
    }
    let rows = dir.join(format!("{name}.work.csv"));
    fs::write(&rows, work).unwrap();
    let outcome =
        Phasemeter::audit().args(["-", "--price", "0.7", "--work-log"]).arg(&rows).stdin(log).run();
    let path = dir.join(name);
    fs::write(&path, outcome.out).unwrap();
    path
}

fn compare(before: &Path, after: &Path, args: &[&str]) -> Outcome {
    Phasemeter::new("compare").args([before, after]).args(args).run()
}

#[test]
fn audits_with_work_logs_are_compared_with_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let before = report(dir.path(), "before.json", |hour| 1_000 + hour * 13 % 50);
    let after = report(dir.path(), "after.json", |hour| 1_250 + hour * 17 % 60);
    let faster = compare(&before, &after, &["--format", "json"]).json();
    assert_eq!(faster["unit_cost"]["significant"], Value::Bool(true), "{faster}");
    let change = faster["unit_cost"]["change"].as_f64().unwrap();
    assert!((-0.21..-0.19).contains(&change), "{change}");
    let text = compare(&before, &after, &[]);
    assert_eq!((text.status, text.err.as_str()), (0, ""));
    assert!(
        text.out.contains("Result       a sample costs 19.9% less (95% confidence)"),
        "{}",
        text.out
    );
    let same = compare(&before, &before, &[]).out;
    assert!(same.contains("no difference in dollars per sample at 95% confidence"), "{same}");
}

#[test]
fn different_work_is_rejected_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let before = report(dir.path(), "before.json", |_| 1_000);
    let text = fs::read_to_string(&before).unwrap();
    let after = dir.path().join("after.json");
    fs::write(&after, text.replace("NVIDIA L4", "NVIDIA A10G")).unwrap();
    let outcome = compare(&before, &after, &[]);
    assert_eq!(outcome.status, 65);
    let line = outcome.error_line();
    assert!(
        line.contains("after.json are not comparable: the GPU models differ (NVIDIA L4, and"),
        "{line}"
    );
    let unknown = compare(&before, &before, &["--done", "nothing"]);
    assert_eq!(unknown.status, 65);
    assert!(unknown.error_line().contains("does not recommend \"nothing\""), "{unknown:?}");
    assert_eq!(compare(&before, &dir.path().join("none.json"), &[]).status, 66);
    assert_eq!(compare(&before, &before, &["--level", "100"]).status, 2);
}
