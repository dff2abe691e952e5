//! Cases of `phasemeter plan` and `phasemeter prices`: `tests/fixtures/plans/*.case`. Adding a case
//! needs no Rust.
//!
//! ```text
//! # a comment
//! $ plan capacity --demand 500 …     the command line, with double quotes
//! > a fragment of the text            of one line, or of several joined by one blank
//! = result.gpus 4                     a value of the JSON, exact; a string has quotes
//! ~ result.exact_gpus 3.125           a number, rounded to as many decimals
//! ! the error line                    exit status 2; `!65` for another one
//! ```

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::phasemeter::{Outcome, Phasemeter};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/plans");

const SCHEMA: &str = include_str!("../../collector/plan-report/src/plan.schema.json");

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap());

/// One command line with what is expected of it.
struct Case {
    at: String,
    command: Vec<String>,
    expected: Vec<(String, String)>,
}

fn cases() -> Vec<Case> {
    let mut files: Vec<_> = fs::read_dir(DIR).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "case"));
    files.sort();
    files.iter().flat_map(|path| parse(path)).collect()
}

fn parse(path: &Path) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        let at = format!("{}:{}", path.file_name().unwrap().to_str().unwrap(), number + 1);
        let Some((kind, rest)) = line.split_once(' ').filter(|(kind, _)| *kind != "#") else {
            assert!(line.is_empty() || line.starts_with('#'), "{at}: {line}");
            continue;
        };
        match kind {
            "$" => cases.push(Case { at, command: words(rest), expected: Vec::new() }),
            ">" | "=" | "~" | "!" | "!65" | "!66" => {
                let case = cases.last_mut().unwrap_or_else(|| panic!("{at}: before any command"));
                case.expected.push((kind.to_owned(), rest.to_owned()));
            }
            _ => panic!("{at}: unknown line {line}"),
        }
    }
    cases
}

/// Words between blanks; double quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Runs in the directory of the cases, which has the reports that they name.
fn run(command: &[String], more: &[&str]) -> Outcome {
    let run = Phasemeter::new(&command[0]).within(Path::new(DIR));
    run.args(&command[1..]).args(more).run()
}

#[test]
fn plan_cases_give_expected_results() {
    let cases = cases();
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    let failures: Vec<String> = cases.iter().flat_map(check).collect();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

fn check(case: &Case) -> Vec<String> {
    let Case { at, command, expected } = case;
    assert!(!expected.is_empty(), "{at}: expects nothing");
    let text = run(command, &[]);
    if let [(kind, line)] = expected.as_slice()
        && let Some(status) = kind.strip_prefix('!')
    {
        return expect_error(at, &text, status.parse().unwrap_or(2), line);
    }
    let writes_book = command[1] == "import";
    if text.status != 0 || !(text.err.is_empty() || writes_book) {
        return vec![format!("{at}: {}", text.err)];
    }
    // Tables are aligned: columns count as separated by one blank.
    let words: Vec<_> = text.out.split_whitespace().chain(text.err.split_whitespace()).collect();
    let joined = words.join(" ");
    let json = if writes_book { Value::Null } else { run(command, &["--format", "json"]).json() };
    let mut failures = Vec::new();
    if !writes_book && let Err(error) = VALIDATOR.validate(&json) {
        failures.push(format!("{at}: {error} at {}", error.instance_path()));
    }
    for (kind, expected) in expected {
        let failure = match kind.as_str() {
            ">" => (!joined.contains(expected.as_str()))
                .then(|| format!("no '{expected}' in\n{}", text.out)),
            _ => mismatch(kind, expected, &json),
        };
        failures.extend(failure.map(|failure| format!("{at}: {failure}")));
    }
    failures
}

fn expect_error(at: &str, outcome: &Outcome, exit: i32, expected: &str) -> Vec<String> {
    // Errors of the command line are clap's, which adds a usage line.
    let line = outcome.err.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").or(line.strip_prefix("phasemeter: ")).unwrap_or(line);
    let (status, out) = (outcome.status, outcome.out.as_str());
    if (status, out, line) == (exit, "", expected) {
        return Vec::new();
    }
    vec![format!("{at}: status {status}, error {line}")]
}

/// Compares the value at a path.
fn mismatch(kind: &str, expected: &str, json: &Value) -> Option<String> {
    let (path, value) = expected.split_once(' ').unwrap();
    let pointer = format!("/{}", path.replace('.', "/"));
    let Some(found) = json.pointer(&pointer) else {
        return Some(format!("no {path} in {json:#}"));
    };
    let is_equal = if kind == "~" {
        let decimals = value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        found.as_f64().is_some_and(|found| format!("{found:.decimals$}") == value)
    } else {
        let expected: Value = serde_json::from_str(value).unwrap();
        match (expected.as_f64(), found.as_f64()) {
            (Some(expected), Some(found)) => expected.total_cmp(&found).is_eq(),
            _ => &expected == found,
        }
    };
    (!is_equal).then(|| format!("{path} is {found}, not {value}"))
}

/// Lines of a page are at most 80 columns wide, except those that are commands to copy.
#[test]
fn plan_pages_fit_80_columns() {
    for case in cases().iter().filter(|case| case.command[0] == "plan") {
        let outcome = run(&case.command, &[]);
        for line in outcome.out.lines().filter(|line| !line.contains("CUDA_")) {
            assert!(line.chars().count() <= 80, "{}: {line}", case.at);
        }
    }
}
