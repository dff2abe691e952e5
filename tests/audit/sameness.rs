//! One log, however it comes, gives one report and the same bytes of OTLP.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::logs::{Ids, Plan, Row, Style, gzipped, utf16};
use crate::phasemeter::Phasemeter;
use crate::report;

/// A report without what says where it came from, and the OTLP file.
fn audited(folder: &Path, logs: &[&str], stdin: &[u8], args: &[&str]) -> (Value, String) {
    let mut report = Phasemeter::audit()
        .within(folder)
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
    (report, fs::read_to_string(folder.join("otlp.jsonl")).unwrap())
}

/// A log in which a few rows are torn.
fn with_torn_rows(text: &str) -> String {
    let torn = |(number, line): (usize, &str)| match number {
        40 => "torn, row".to_owned(),
        41 => "torn".to_owned(),
        _ => line.to_owned(),
    };
    text.lines().enumerate().map(torn).map(|line| line + "\n").collect()
}

/// A file's name, and what is in it.
type File = (&'static str, Vec<u8>);

/// Each way to write a log: as which files.
fn ways(plan: Plan, rows: &[Row]) -> Vec<(&'static str, Vec<File>)> {
    let style = plan.style();
    let text = with_torn_rows(&style.write(rows));
    let crlf = text.replace('\n', "\r\n");
    let bare = with_torn_rows(&Style { units: false, ..style.clone() }.write(rows));
    let again = Style { header_again: Some(rows.len() / 2), ..style.clone() };
    let mut shuffled = style.clone();
    shuffled.columns.reverse();
    shuffled.columns.rotate_left(2);

    // Within a tick; where rows name no GPU, between two.
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
        ("UTF-16, little end first", one(utf16(&crlf, u16::to_le_bytes))),
        ("UTF-16, big end first", one(utf16(&text, u16::to_be_bytes))),
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
    for (way, files) in ways(plan, &rows) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let mut found = vec![(way.to_owned(), audited(folder.path(), &names, b"", args))];
        if let [(_, bytes)] = files.as_slice() {
            found.push((format!("{way}, piped"), audited(folder.path(), &["-"], bytes, args)));
        }
        for (way, (report, otlp)) in found {
            let (wanted, requests) = expected.get_or_insert_with(|| (report.clone(), otlp.clone()));
            assert_eq!(report["rejected_total"], 2, "{plan:?}, {way}");
            assert_eq!(&report, wanted, "{plan:?}, {way}");
            assert!(&otlp == requests, "{plan:?}, {way}: other OTLP");
        }
    }
}

#[test]
fn a_log_in_any_clothes_is_the_same_log() {
    let plan =
        Plan { gpus: 3, ticks: 700, missing: 10, pause_after: 99, pause: 4_321, ..Plan::default() };
    check(Plan { seed: 51, ..plan }, &[]);
    check(Plan { seed: 52, ids: Ids::Uuid, late: 900, ..plan }, &[]);
    check(Plan { seed: 53, ids: Ids::BusId, ..plan }, &[]);
    check(Plan { seed: 54, ids: Ids::Nothing, every: 1_000, ..plan }, &["--gpus", "3"]);
    check(Plan { seed: 55, ids: Ids::Nothing, gpus: 1, ..plan }, &[]);
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    let text = Plan { seed: 56, gpus: 8, ..Plan::default() }.text();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.csv"), text).unwrap();
    for format in ["text", "json"] {
        let run = || {
            let args = ["log.csv", "--format", format, "--otlp-file", "otlp.jsonl"];
            let outcome = Phasemeter::new("audit").within(folder.path()).args(args).run();
            assert_eq!(outcome.status, 0, "{outcome:?}");
            (outcome.out, fs::read(folder.path().join("otlp.jsonl")).unwrap())
        };
        assert!(run() == run(), "{format}");
    }
}

#[test]
fn halves_say_that_they_were_joined() {
    let plan = Plan { seed: 57, ..Plan::default() };
    let (rows, style) = (plan.rows(), plan.style());
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = rows.split_at(rows.len() / 2);
    fs::write(folder.path().join("a.csv"), style.write(first)).unwrap();
    fs::write(folder.path().join("b.csv"), style.write(second)).unwrap();
    let report = Phasemeter::audit().within(folder.path()).args(["b.csv", "a.csv"]).report();
    let joined = |line: &Value| line.as_str().unwrap().starts_with("b.csv continues a.csv");
    assert!(report::list(&report["assumptions"]).iter().any(joined), "{report:#}");
}

#[test]
fn rows_of_several_gpus_in_turn_are_not_taken_for_one() {
    for gpus in [2, 3, 4, 8, 16, 64] {
        let plan =
            Plan { seed: 58, gpus, every: 2_000, ticks: 100, ids: Ids::Nothing, ..Plan::default() };
        let text = plan.text();
        let refusal = |args: &[&str]| {
            let outcome = Phasemeter::audit().arg("-").args(args).stdin(text.as_str()).run();
            assert_eq!(outcome.status, 65, "{outcome:?}");
            let line = outcome.refusal().to_owned();
            assert!(line.starts_with("standard input"), "{line}");
            assert!(line.contains(&format!("--gpus {gpus}")), "{gpus} GPUs: {line}");
        };
        refusal(&[]);
        refusal(&["--gpus", "7"]);
        let count = gpus.to_string();
        for fitting in [count.as_str(), "1"] {
            let args = ["--gpus", fitting];
            let report = Phasemeter::audit().arg("-").args(args).stdin(text.as_str()).report();
            report::check(&report);
            assert_eq!(report::list(&report["gpus"]).len().to_string(), fitting);
        }
    }
}
