//! Malformed and malicious logs.
//!
//! For any input the binary does not panic. It reports what it could read, or prints one line with the
//! file and the reason.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use unicode_width::UnicodeWidthStr;

use self::cases::{Case, HEADER, rows};
use crate::phasemeter::{Outcome, Phasemeter};
use crate::{otlp, report, trace};

mod cases;

#[test]
fn hostile_logs_never_panic_and_fail_with_one_line() {
    let cases = cases::all();
    assert!(cases.len() >= 200, "only {}", cases.len());
    let dir = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let audit = || audit(dir.path(), case);
                    if catch_unwind(AssertUnwindSafe(audit)).is_err() {
                        failed.lock().unwrap().push(&case.what);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), cases.len());
}

fn audit(dir: &Path, case: &Case) {
    let own = tempfile::tempdir_in(dir).unwrap();
    fs::write(own.path().join("hostile.csv"), &case.bytes).unwrap();
    let run = |format| {
        let run =
            Phasemeter::new("audit").within(own.path()).args(["hostile.csv", "--price", "1.7"]);
        run.args(&case.args).args(["--otlp-file", "otlp.jsonl", "--format", format]).run()
    };
    let (json, text) = (run("json"), run("text"));
    for outcome in [&json, &text] {
        assert!(!outcome.err.contains("panicked"), "{}: {outcome:?}", case.what);
        assert!([0, 65].contains(&outcome.status), "{}: {outcome:?}", case.what);
    }
    assert_eq!(json.status, text.status, "{}", case.what);
    if json.status == 0 {
        check_report(case, &json, &text);
        let captured = otlp::read(&fs::read_to_string(own.path().join("otlp.jsonl")).unwrap());
        trace::check_sums(&json.json(), &captured);
    } else {
        check_error(case, json.error_line());
        assert_eq!(json.err, text.err, "{}", case.what);
    }
}

fn check_report(case: &Case, json: &Outcome, text: &Outcome) {
    assert_eq!((json.err.as_str(), text.err.as_str()), ("", ""), "{}", case.what);
    let report = json.json();
    report::check(&report);
    for row in report::list(&report["rejected_rows"]) {
        assert_eq!(row["file"], "hostile.csv", "{}", case.what);
        assert!(row["line"].as_u64() > Some(0), "{}: {row}", case.what);
        let reason = row["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && reason.len() < 1_000, "{}: {row}", case.what);
    }
    // No terminal control characters and no bidirectional overrides.
    let is_unsafe = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.out.contains(is_unsafe), "{}: {:?}", case.what, text.out);
    let wide = text.out.lines().find(|line| line.width() > 80);
    assert_eq!(wide, None, "{}", case.what);
}

fn check_error(case: &Case, line: &str) {
    let Some(rest) = line.strip_prefix("hostile.csv").or(line.strip_prefix("--columns")) else {
        panic!("{}: no file: {line}", case.what);
    };
    assert!(line.len() < 1_000, "{}: {line}", case.what);
    // These errors concern the whole file.
    let whole_file = [
        "no rows",
        "rows look like",
        "rows do not match",
        "too few rows",
        "no known column",
        "a web page",
        "a zip archive",
        "the table of nvidia-smi",
    ];
    let names_line = rest.starts_with(", line ") || rest.contains("(line ");
    assert!(
        names_line || whole_file.iter().any(|what| rest.contains(what)),
        "{}: {line}",
        case.what
    );
    assert!(rest.contains(": ") && rest.len() > 20, "{}: no reason: {line}", case.what);
}

#[test]
fn unreadable_inputs_fail_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("directory")).unwrap();
    fs::write(dir.path().join("good.csv"), format!("{HEADER}{}", rows(0..9))).unwrap();
    let odd = "odd\u{1b}[31m\u{202e}\nname.csv";
    for (names, status) in [
        (&["missing.csv"][..], 66),
        (&["directory"], 66),
        (&["good.csv", "missing.csv"], 66),
        (&["good.csv", "directory"], 66),
        (&["good.csv", "good.csv"], 65),
        (&["-", "-"], 65),
        (&[odd], 66),
        (&["good.csv/good.csv"], 66),
        (&["\u{0}x"][..0], 2),
    ] {
        let outcome = Phasemeter::audit().within(dir.path()).args(names).run();
        assert_eq!(outcome.status, status, "{names:?}: {outcome:?}");
        if status != 2 {
            let bad = if names.contains(&"-") { "standard input" } else { names[names.len() - 1] };
            let line = outcome.error_line();
            assert!(bad == odd || line.starts_with(bad), "{names:?}: {line}");
            assert!(!line.contains(['\u{202e}', '\u{1b}']), "{names:?}: {line:?}");
        }
    }
}
