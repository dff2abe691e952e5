//! Recommendations that are hypotheses, from the report to the bill: nothing counts before `phasemeter trial`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::phasemeter::{Outcome, Phasemeter};
use crate::report::{self, is_open_trial, list, nanos};

const CODE: &str = "data-loading.workers";

/// Hours of a log, which give an interval.
const HOURS: u64 = 17;

/// The log of a GPU that waits for input for half of each 40 s, and its work by hour.
fn logs(dir: &Path, name: &str, samples: impl Fn(u64) -> u64) -> [PathBuf; 2] {
    let mut log = "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n".to_owned();
    let mut work = "time,unit,count\n".to_owned();
    for at in (0..HOURS * 3_600).step_by(5) {
        let (hour, minute, second) = (at / 3_600, at / 60 % 60, at % 60);
        let busy = if at / 20 % 2 == 0 { 96 } else { 1 };
        writeln!(
            log,
            "2026/07/27 {hour:02}:{minute:02}:{second:02}.000, 0, GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60, NVIDIA L4, \
             {busy}, 20000, 23034"
        )
        .unwrap();
        if minute == 30 && second == 0 {
            let count = samples(hour);
            writeln!(work, "2026-07-27T{hour:02}:30:00Z,samples,{count}").unwrap();
        }
    }
    let paths = [format!("{name}.csv"), format!("{name}.work.csv")].map(|name| dir.join(name));
    fs::write(&paths[0], log).unwrap();
    fs::write(&paths[1], work).unwrap();
    paths
}

fn audit([log, work]: &[PathBuf; 2], args: &[&str]) -> Outcome {
    let options = ["--price", "0.7", "--workload", "training", "--work-log"];
    Phasemeter::new("audit").args(options).arg(work).arg(log).args(args).run()
}

/// The report on these logs, as a file beside them.
fn reported(dir: &Path, name: &str, samples: impl Fn(u64) -> u64) -> ([PathBuf; 2], PathBuf) {
    let logs = logs(dir, name, samples);
    let outcome = audit(&logs, &["--format", "json"]);
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    let path = dir.join(format!("{name}.json"));
    fs::write(&path, &outcome.out).unwrap();
    (logs, path)
}

fn settle(dir: &Path, before: &Path, after: &Path, args: &[&str]) -> Outcome {
    let command = Phasemeter::new("trial").args([before, after]).args(args);
    command.arg("--trials").arg(dir).run()
}

fn workers(report: &Value) -> &Value {
    list(&report["recommendations"]).iter().find(|it| it["code"] == CODE).unwrap()
}

fn before(hour: u64) -> u64 {
    1_000 + hour * 13 % 50
}

/// Guarantee: a hypothesis has what decides it and is in no sum; what a trial settles counts, with the interval that was
/// measured, in the report and beside the bill.
#[test]
fn trial_counts_once_it_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (logs, first) = reported(dir, "before", before);
    let (_, second) = reported(dir, "after", |hour| 1_250 + hour * 17 % 60);

    let report: Value = serde_json::from_slice(&fs::read(&first).unwrap()).unwrap();
    report::check(&report);
    let it = workers(&report);
    assert!(is_open_trial(it) && it["trial"]["order"] == 1, "{it:#}");
    assert_eq!(it["trial"]["hours"], 16);
    assert_eq!(nanos(&report["savings"]["total_usd"]["high"]), Some(0), "{:#}", report["savings"]);
    let coverage = &report["waste_coverage"];
    assert!(nanos(&coverage["trial_usd"]) > Some(0) && nanos(&coverage["advised_usd"]) == Some(0));
    let text = audit(&logs, &[]).out;
    assert!(text.contains("\nTry          Use more loader workers ($"), "{text}");
    assert!(text.contains("at stake, try first)") && !text.contains("Saves"), "{text}");
    assert!(text.contains("If the loader has too few workers: Raise num_workers"), "{text}");
    assert!(text.contains("phasemeter trial BEFORE AFTER") && !text.contains("Savings"), "{text}");

    let trials = dir.join("trials");
    fs::create_dir(&trials).unwrap();
    let outcome = settle(&trials, &first, &second, &["--recommendation", CODE, "--format", "json"]);
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    let record = outcome.json();
    let schema = include_str!("../../collector/bill/src/trial/trial.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    assert!(schema.is_valid(&record), "{record:#}");
    assert_eq!(record["result"], "saves");
    let measured = record["saving_fraction"]["expected"].as_f64().unwrap();
    assert!((0.19..0.21).contains(&measured), "{record:#}");

    let dir_of_trials = trials.to_str().unwrap();
    let settled = audit(&logs, &["--format", "json", "--trials", dir_of_trials]).json();
    report::check(&settled);
    let it = workers(&settled);
    assert!(it["counted"] == true && it["trial"]["settled"]["result"] == "saves", "{it:#}");
    let counted = it["saving_fraction"]["expected"].as_f64().unwrap();
    assert!((counted - measured).abs() < 1e-8, "{counted} {measured}");
    let total = settled["savings"]["total_fraction"]["expected"].as_f64().unwrap();
    assert!((total - measured).abs() < 1e-8, "{:#}", settled["savings"]);
    let text = audit(&logs, &["--trials", dir_of_trials]).out;
    assert!(text.contains("\nSaves $") && text.contains("\nSavings "), "{text}");

    let bill = |report: &Path, args: &[&str]| {
        Phasemeter::new("bill").args(args).arg("--trials").arg(&trials).arg(report).run().out
    };
    let after: Value = serde_json::from_str(&bill(&second, &["--format", "json"])).unwrap();
    let realized = &after["realized"][0];
    let (saved, total) = (nanos(&realized["expected_usd"]), nanos(&after["total"]["metered_usd"]));
    // A quarter more work for the same bill.
    let share = saved.unwrap() as f64 / total.unwrap() as f64;
    assert!((0.24..0.26).contains(&share), "{after:#}");
    assert!(
        bill(&second, &[]).contains("\nRealized     data-loading.workers saved $3.0"),
        "{}",
        bill(&second, &[])
    );
    assert!(!bill(&first, &[]).contains("Realized"));
}

/// Guarantee: a placebo saves nothing, and it is not advised any more.
#[test]
fn placebo_is_refuted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (logs, first) = reported(dir, "before", before);
    let (_, same) = reported(dir, "placebo", |hour| 1_000 + hour * 29 % 50);
    let text = settle(dir, &first, &same, &["--recommendation", CODE]).out;
    assert!(text.contains("\nTrial        Use more loader workers: no difference\n"), "{text}");
    let report = audit(&logs, &["--format", "json", "--trials", dir.to_str().unwrap()]).json();
    report::check(&report);
    let it = workers(&report);
    assert_eq!(it["trial"]["settled"]["result"], "no_difference", "{it:#}");
    assert_eq!((&it["counted"], nanos(&it["saving_usd"]["high"])), (&Value::Bool(false), Some(0)));
    let short = reported(dir, "short", |hour| if hour < 9 { 0 } else { 1_000 }).1;
    let code = ["--recommendation", "data-loading.decode"];
    let unknown = settle(dir, &first, &short, &code);
    assert!(unknown.status == 65 || unknown.out.contains("Trial"), "{unknown:?}");
}

/// Guarantee: a record is evidence only with the reports that it was settled by.
#[test]
fn record_that_its_reports_do_not_show_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (logs, first) = reported(dir, "before", before);
    let (_, second) = reported(dir, "after", |hour| 1_250 + hour * 17 % 60);
    let several = settle(dir, &first, &second, &[]);
    assert_eq!(several.status, 65);
    assert!(
        several.error_line().contains("set --recommendation to one of data-loading."),
        "{several:?}"
    );
    let other = settle(dir, &first, &second, &["--recommendation", "rate.spot"]);
    assert!(
        other.error_line().contains("has no trial \"rate.spot\"; expected one of"),
        "{other:?}"
    );
    assert_eq!(settle(dir, &first, &second, &["--recommendation", CODE]).status, 0);
    let is_record = |path: &PathBuf| path.to_str().unwrap().ends_with(".trial.json");
    let files = || fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let record = files().find(is_record).unwrap();
    let refused = |line: &str| {
        let outcome = audit(&logs, &["--trials", dir.to_str().unwrap()]);
        assert_eq!(outcome.status, 65);
        assert!(outcome.error_line().contains(line), "{outcome:?}");
    };
    let text = fs::read_to_string(&record).unwrap();
    for (from, to, line) in [
        ("\"saves\"", "\"worse\"", "its reports show another result"),
        (CODE, "data-loading.none", "has no trial \"data-loading.none\""),
        ("Use more", "Use fewer", "its recommendation is not that of the report before"),
        ("trial/0.1", "trial/9", "not a record of a trial: its schema is"),
    ] {
        assert!(text.contains(from));
        fs::write(&record, text.replace(from, to)).unwrap();
        refused(line);
    }
    fs::write(&record, &text).unwrap();
    fs::write(&second, fs::read_to_string(&second).unwrap() + "\n").unwrap();
    refused("after.json has changed (SHA-256");
    fs::remove_file(&second).unwrap();
    let outcome = audit(&logs, &["--trials", dir.to_str().unwrap()]);
    assert_eq!(outcome.status, 66, "{outcome:?}");
}
