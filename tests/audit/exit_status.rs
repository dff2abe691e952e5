//! Exit statuses: 0 success, 1 an alert opened (in `alerts.rs`), 2 usage, 65 invalid data, 66 cannot open input, 73 output in use, 74 write
//! failed.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::logs::Plan;
use crate::phasemeter::{Outcome, Phasemeter};

const FULL: &str = "/dev/full";

fn audit(args: &[&str]) -> Outcome {
    let log = Plan { ticks: 50, ..Plan::default() }.text();
    Phasemeter::new("audit").arg("-").args(args).stdin(log).run()
}

#[test]
fn success_exits_0_with_empty_stderr() {
    let outcome = audit(&[]);
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    assert!(!outcome.out.is_empty());
}

#[test]
fn usage_error_exits_2() {
    let invalid: [&[&str]; 15] = [
        &["--nope"],
        &["--gpu-count", "0"],
        &["--gpu-count", "-1"],
        &["--gpu-count", "many"],
        &["--price", "free"],
        &["--price", "-1"],
        &["--price", "1e3"],
        &["--plan", "stolen"],
        &["--thresholds", "70,10,90"],
        &["--stale-after", "0"],
        &["--utc-offset", "Berlin"],
        &["--work", "cats=1"],
        &["--work", "samples=0"],
        &["--format", "xml"],
        &["--traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"],
    ];
    for args in invalid {
        let outcome = audit(args);
        assert_eq!((outcome.status, outcome.out.as_str()), (2, ""), "{args:?}: {}", outcome.err);
        assert!(outcome.err.starts_with("error: "), "{}", outcome.err);
    }
    for incomplete in ["audit", "nonsense"] {
        assert_eq!(Phasemeter::new(incomplete).run().status, 2);
    }
}

#[test]
fn invalid_data_exits_65() {
    let outcome = Phasemeter::audit().arg("-").stdin("Failed to initialize NVML\n").run();
    assert_eq!(outcome.status, 65);
    assert!(outcome.error_line().starts_with("standard input, line 1: "), "{outcome:?}");
}

#[test]
fn log_given_twice_by_any_path_exits_65() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log.csv"), Plan { ticks: 50, ..Plan::default() }.text()).unwrap();
    symlink("log.csv", dir.path().join("symbolic.csv")).unwrap();
    fs::hard_link(dir.path().join("log.csv"), dir.path().join("hard.csv")).unwrap();
    let absolute = dir.path().join("log.csv");
    for second in ["log.csv", "./log.csv", "symbolic.csv", "hard.csv", absolute.to_str().unwrap()] {
        let outcome = Phasemeter::audit().within(dir.path()).args(["log.csv", second]).run();
        let expected = format!("{second}: given twice, first as log.csv; name each log once");
        assert_eq!((outcome.status, outcome.error_line()), (65, expected.as_str()), "{outcome:?}");
    }
    let outcome = Phasemeter::audit().args(["-", "/dev/stdin"]).stdin("timestamp\n").run();
    let expected = "/dev/stdin: given twice, first as standard input; name each log once";
    assert_eq!((outcome.status, outcome.error_line()), (65, expected), "{outcome:?}");
}

#[test]
fn unreadable_input_exits_66() {
    let dir = tempfile::tempdir().unwrap();
    for (name, message) in [("missing.csv", "missing.csv: "), (".", ".: is a directory")] {
        let outcome = Phasemeter::audit().within(dir.path()).arg(name).run();
        assert_eq!(outcome.status, 66);
        assert!(outcome.error_line().starts_with(message), "{outcome:?}");
    }
}

/// Scenario: an output is an input, a redirected stream or another output, under any name.
/// Guarantee: no file is created or changed.
#[test]
fn output_in_use_exits_73() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let log = Plan { ticks: 50, ..Plan::default() }.text();
    fs::write(path("log.csv"), &log).unwrap();
    fs::write(path("terms.json"), "{}").unwrap();
    symlink("log.csv", path("link.csv")).unwrap();
    let terms = ["--policy-settings", "negotiated=terms.json"];
    let cases: [(&[&str], &str); 6] = [
        (&["--otlp-file", "./log.csv"], "--otlp-file ./log.csv: is also the input log.csv"),
        (&["--otlp-file", "link.csv"], "--otlp-file link.csv: is also the input log.csv"),
        (&["--dump-windows", "log.csv"], "--dump-windows log.csv: is also the input log.csv"),
        (&["--otlp-file", "terms.json"], "--otlp-file terms.json: is also the input terms.json"),
        (
            &["--otlp-file", "out.json", "--dump-windows", "./out.json"],
            "--dump-windows ./out.json: is also the output of --otlp-file",
        ),
        (&["--otlp-file", "report.txt"], "--otlp-file report.txt: is also standard output"),
    ];
    for (args, message) in cases {
        let report = fs::File::create(path("report.txt")).unwrap();
        let run = Phasemeter::audit().within(dir.path()).arg("log.csv").args(terms).args(args);
        let outcome = run.stdout(report).run();
        let expected = format!("{message}; choose another file");
        assert_eq!((outcome.status, outcome.error_line()), (73, expected.as_str()), "{outcome:?}");
        assert_eq!(fs::read_to_string(path("log.csv")).unwrap(), log, "{args:?}");
        assert_eq!(fs::read_to_string(path("terms.json")).unwrap(), "{}", "{args:?}");
        assert!(!path("out.json").exists(), "{args:?}");
    }
    let both = ["--otlp-file", "/dev/null", "--dump-windows", "/dev/null"];
    let outcome = Phasemeter::audit().within(dir.path()).arg("log.csv").args(both).run();
    assert_eq!(outcome.status, 0, "{outcome:?}");
}

#[test]
fn failed_write_exits_74() {
    let outcome = audit(&["--otlp-file", "missing-directory/otlp.jsonl"]);
    assert_eq!(outcome.status, 74);
    assert!(outcome.error_line().starts_with("missing-directory/otlp.jsonl: "), "{outcome:?}");

    assert!(Path::new(FULL).exists(), "no device that is always full");
    let outcome = audit(&["--otlp-file", FULL]);
    assert_eq!(outcome.status, 74);
    assert!(outcome.error_line().starts_with("/dev/full: "), "{outcome:?}");
    for subcommand in ["audit", "demo"] {
        let full = OpenOptions::new().write(true).open(FULL).unwrap();
        let run = Phasemeter::new(subcommand).stdout(full);
        let run = if subcommand == "audit" { run.arg("-") } else { run };
        let outcome = run.stdin(Plan::default().text()).run();
        assert_eq!(outcome.status, 74, "{outcome:?}");
        assert!(outcome.error_line().contains("cannot write the report"), "{outcome:?}");
    }
}

#[test]
fn help_and_version_exit_0() {
    for args in [&["--help"][..], &["--version"], &["audit", "--help"], &["demo", "--help"]] {
        let outcome = Phasemeter::new(args[0]).args(&args[1..]).run();
        assert_eq!((outcome.status, outcome.err.as_str()), (0, ""), "{args:?}");
        assert!(outcome.out.contains("phasemeter"));
    }
}
