//! A log yields the same report and the same OTLP bytes in every encoding.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::logs::{Ids, Plan, Row, Style, gzipped, utf16};
use crate::phasemeter::Phasemeter;
use crate::report;

/// The report without references to its input, and the OTLP file.
fn audited(dir: &Path, logs: &[&str], stdin: &[u8], args: &[&str]) -> (Value, String) {
    let mut report = Phasemeter::audit()
        .within(dir)
        .args(logs)
        .args(["--price", "2.2", "--otlp-file", "otlp.jsonl"])
        .args(args)
        .stdin(stdin)
        .report();
    report::check(&report);
    let fields = report.as_object_mut().unwrap();
    fields.remove("title");
    fields.remove("assumptions");
    for row in fields["rejected_rows"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().retain(|field, _| field == "reason");
    }
    (report, fs::read_to_string(dir.join("otlp.jsonl")).unwrap())
}

/// A log with a few truncated rows.
fn with_torn_rows(text: &str) -> String {
    let torn = |(number, line): (usize, &str)| match number {
        40 => "torn, row".to_owned(),
        41 => "torn".to_owned(),
        _ => line.to_owned(),
    };
    text.lines().enumerate().map(torn).map(|line| line + "\n").collect()
}

/// A file's name and contents.
type File = (&'static str, Vec<u8>);

/// Every encoding of a log, as files.
fn encodings(plan: Plan, rows: &[Row]) -> Vec<(&'static str, Vec<File>)> {
    let style = plan.style();
    let text = with_torn_rows(&style.write(rows));
    let crlf = text.replace('\n', "\r\n");
    let bare = with_torn_rows(&Style { units: false, ..style.clone() }.write(rows));
    let again = Style { header_again: Some(rows.len() / 2), ..style.clone() };
    let mut shuffled = style.clone();
    shuffled.columns.reverse();
    shuffled.columns.rotate_left(2);

    // Within a tick; between two ticks if rows do not identify the GPU.
    let between = rows.len() / plan.gpus / 2 * plan.gpus;
    let middle = between + usize::from(plan.ids != Ids::Nothing);
    let first: String = text.lines().take(1 + middle).map(|line| format!("{line}\n")).collect();
    let second = style.write(&rows[middle..]);
    let zipped_twice = [gzipped(&first), gzipped(&text[first.len()..])].concat();
    let one = |bytes: Vec<u8>| vec![("log.csv", bytes)];
    vec![
        ("plain", one(text.clone().into_bytes())),
        ("another name", vec![("other.txt", text.clone().into_bytes())]),
        ("gzip", vec![("log.csv.gz", gzipped(&text))]),
        ("gzip by another name", one(gzipped(&text))),
        ("gzip of two members", one(zipped_twice)),
        ("CRLF", one(crlf.clone().into_bytes())),
        ("byte order mark", one(format!("\u{feff}{text}").into_bytes())),
        ("UTF-16, little-endian", one(utf16(&crlf, u16::to_le_bytes))),
        ("UTF-16, big-endian", one(utf16(&text, u16::to_be_bytes))),
        ("UTF-16 in gzip", one(gzipped(utf16(&crlf, u16::to_le_bytes)))),
        ("without units", one(bare.into_bytes())),
        ("no last line end", one(text.trim_end().as_bytes().to_vec())),
        ("empty lines", one(text.replacen('\n', "\n\n  \n", 5).into_bytes())),
        ("header twice", one(with_torn_rows(&again.write(rows)).into_bytes())),
        ("shuffled columns", one(with_torn_rows(&shuffled.write(rows)).into_bytes())),
        ("halves", vec![("a.csv", first.clone().into_bytes()), ("b.csv", second.clone().into())]),
        (
            "halves, the later first",
            vec![("b.csv", second.clone().into()), ("a.csv", first.clone().into())],
        ),
        ("halves, one gzipped", vec![("a.csv.gz", gzipped(&first)), ("b.csv", second.into())]),
    ]
}

fn check(plan: Plan, args: &[&str]) {
    let rows = plan.rows();
    let mut expected: Option<(Value, String)> = None;
    for (encoding, files) in encodings(plan, &rows) {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let mut found = vec![(encoding.to_owned(), audited(dir.path(), &names, b"", args))];
        if let [(_, bytes)] = files.as_slice() {
            found.push((format!("{encoding}, piped"), audited(dir.path(), &["-"], bytes, args)));
        }
        for (encoding, (report, otlp)) in found {
            let (wanted, requests) = expected.get_or_insert_with(|| (report.clone(), otlp.clone()));
            assert_eq!(report["rejected_total"], 2, "{plan:?}, {encoding}");
            assert_eq!(&report, wanted, "{plan:?}, {encoding}");
            assert!(&otlp == requests, "{plan:?}, {encoding}: different OTLP");
        }
    }
}

#[test]
fn encodings_of_a_log_yield_identical_results() {
    let plan =
        Plan { gpus: 3, ticks: 700, missing: 10, pause_after: 99, pause: 4_321, ..Plan::default() };
    check(Plan { seed: 51, ..plan }, &[]);
    check(Plan { seed: 52, ids: Ids::Uuid, late: 900, ..plan }, &[]);
    check(Plan { seed: 53, ids: Ids::BusId, ..plan }, &[]);
    check(Plan { seed: 54, ids: Ids::Nothing, every: 1_000, ..plan }, &["--gpu-count", "3"]);
    check(Plan { seed: 55, ids: Ids::Nothing, gpus: 1, ..plan }, &[]);
}

#[test]
fn audit_is_byte_identical_for_same_log() {
    let text = Plan { seed: 56, gpus: 8, ..Plan::default() }.text();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log.csv"), text).unwrap();
    for format in ["text", "json"] {
        let run = || {
            let args = ["log.csv", "--format", format, "--otlp-file", "otlp.jsonl"];
            let outcome = Phasemeter::new("audit").within(dir.path()).args(args).run();
            assert_eq!(outcome.status, 0, "{outcome:?}");
            (outcome.out, fs::read(dir.path().join("otlp.jsonl")).unwrap())
        };
        assert!(run() == run(), "{format}");
    }
}

#[test]
fn continued_log_is_noted() {
    let plan = Plan { seed: 57, ..Plan::default() };
    let (rows, style) = (plan.rows(), plan.style());
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = rows.split_at(rows.len() / 2);
    fs::write(dir.path().join("a.csv"), style.write(first)).unwrap();
    fs::write(dir.path().join("b.csv"), style.write(second)).unwrap();
    let report = Phasemeter::audit().within(dir.path()).args(["b.csv", "a.csv"]).report();
    let joined = |line: &Value| line.as_str().unwrap().starts_with("b.csv continues a.csv");
    assert!(report::list(&report["assumptions"]).iter().any(joined), "{report:#}");
}

#[test]
fn log_without_one_gpu_continues_and_other_gpus_are_noted() {
    let plan = Plan { seed: 59, gpus: 8, ticks: 100, every: 1_000, ..Plan::default() };
    let (rows, style) = (plan.rows(), plan.style());
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = rows.split_at(rows.len() / 2);
    let fewer: Vec<_> = second.iter().filter(|row| row.gpu != 7).cloned().collect();
    fs::write(dir.path().join("a.csv"), style.write(first)).unwrap();
    fs::write(dir.path().join("b.csv"), style.write(&fewer)).unwrap();
    fs::write(dir.path().join("c.csv"), style.write(&fewer)).unwrap();
    let audited = |files: &[&str]| Phasemeter::audit().within(dir.path()).args(files).report();
    let notes = |report: &Value| report["assumptions"].to_string();
    let joined = audited(&["a.csv", "b.csv"]);
    assert_eq!(report::list(&joined["gpus"]).len(), 8, "{joined:#}");
    assert!(!notes(&joined).contains("GPUs of their own"), "{joined:#}");
    let overlapping = audited(&["a.csv", "b.csv", "c.csv"]);
    assert_eq!(report::list(&overlapping["gpus"]).len(), 15, "{overlapping:#}");
    let reason = "c.csv is counted as GPUs of their own, since the logs overlap in time";
    assert!(notes(&overlapping).contains(reason), "{overlapping:#}");
}

#[test]
fn interleaved_rows_require_gpu_count() {
    for gpus in [2, 3, 4, 8, 16, 64] {
        let plan =
            Plan { seed: 58, gpus, every: 2_000, ticks: 100, ids: Ids::Nothing, ..Plan::default() };
        let text = plan.text();
        let rejected = |args: &[&str]| {
            let outcome = Phasemeter::audit().arg("-").args(args).stdin(text.as_str()).run();
            assert_eq!(outcome.status, 65, "{outcome:?}");
            let line = outcome.error_line().to_owned();
            assert!(line.starts_with("standard input"), "{line}");
            assert!(line.contains(&format!("--gpu-count {gpus}")), "{gpus} GPUs: {line}");
        };
        rejected(&[]);
        rejected(&["--gpu-count", "7"]);
        let count = gpus.to_string();
        for valid in [count.as_str(), "1"] {
            let args = ["--gpu-count", valid];
            let report = Phasemeter::audit().arg("-").args(args).stdin(text.as_str()).report();
            report::check(&report);
            assert_eq!(report::list(&report["gpus"]).len().to_string(), valid);
        }
    }
}
