//! Log fixtures: `tests/fixtures/logs/NAME.csv` with the expected result. `NAME.err` is the error
//! line; `NAME.json` is a part of the report, `NAME.lines` are some of its lines as text. `NAME.args` has
//! options, one per line. Adding a case needs no Rust.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::report;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/logs");

fn logs() -> Vec<PathBuf> {
    let entries = fs::read_dir(DIR).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "csv");
    let mut logs: Vec<_> = entries.filter(is_log).collect();
    logs.sort();
    logs
}

#[test]
fn log_fixtures_match_expected_results() {
    let logs = logs();
    assert!(logs.len() >= 25, "only {} logs", logs.len());
    for log in logs {
        let name = log.file_name().unwrap().to_str().unwrap();
        let expected_file =
            |extension: &str| fs::read_to_string(log.with_extension(extension)).ok();
        let args = expected_file("args").unwrap_or_default();
        let run =
            |audit: Phasemeter| audit.within(Path::new(DIR)).arg(name).args(args.lines()).run();
        let outcome = run(Phasemeter::audit());
        if let Some(expected) = expected_file("lines") {
            let text = run(Phasemeter::new("audit")).out;
            let has = |line: &str| text.lines().any(|found| found == line);
            assert!(expected.lines().all(has), "{name}: {text}");
        }
        match (expected_file("err"), expected_file("json")) {
            (Some(expected), None) => {
                assert_eq!(outcome.status, 65, "{name}: {outcome:?}");
                assert_eq!(outcome.error_line(), expected.trim_end(), "{name}");
            }
            (None, Some(expected)) => {
                assert_eq!((outcome.status, outcome.err.as_str()), (0, ""), "{name}");
                let report = outcome.json();
                report::check(&report);
                let expected: Value = serde_json::from_str(&expected).unwrap();
                assert_part(&expected, &report, name);
            }
            _ => panic!("{name} needs an .err or a .json"),
        }
    }
}

/// Objects may have more fields than expected; everything else must be equal.
fn assert_part(expected: &Value, found: &Value, path: &str) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (field, value) in expected {
                let path = format!("{path} {field}");
                let found = found.get(field).unwrap_or_else(|| panic!("{path} is missing"));
                assert_part(value, found, &path);
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            assert_eq!(expected.len(), found.len(), "{path}");
            for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
                assert_part(expected, found, &format!("{path} {number}"));
            }
        }
        (Value::Number(expected), Value::Number(found)) => {
            assert_eq!(expected.as_f64(), found.as_f64(), "{path}");
        }
        _ => assert_eq!(expected, found, "{path}"),
    }
}
