//! Exit statuses: 0, 2 usage, 65 unusable data, 66 cannot open, 74 cannot write.

use std::fs::OpenOptions;
use std::path::Path;

use crate::logs::Plan;
use crate::phasemeter::{Outcome, Phasemeter};

const FULL: &str = "/dev/full";

fn audit(args: &[&str]) -> Outcome {
    let log = Plan { ticks: 50, ..Plan::default() }.text();
    Phasemeter::new("audit").arg("-").args(args).stdin(log).run()
}

#[test]
fn what_goes_well_is_0_and_says_nothing_on_standard_error() {
    let outcome = audit(&[]);
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    assert!(!outcome.out.is_empty());
}

#[test]
fn a_wrong_command_line_is_2() {
    let wrong: [&[&str]; 16] = [
        &["--nope"],
        &["--gpus", "0"],
        &["--gpus", "-1"],
        &["--gpus", "many"],
        &["--price", "free"],
        &["--price", "-1"],
        &["--price", "1e3"],
        &["--price", "2", "--provider", "aws"],
        &["--plan", "stolen"],
        &["--thresholds", "70,10,90"],
        &["--max-hold", "0"],
        &["--utc-offset", "Berlin"],
        &["--work", "cats=1"],
        &["--work", "samples=0"],
        &["--format", "xml"],
        &["--traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"],
    ];
    for args in wrong {
        let outcome = audit(args);
        assert_eq!((outcome.status, outcome.out.as_str()), (2, ""), "{args:?}: {}", outcome.err);
        assert!(outcome.err.starts_with("error: "), "{}", outcome.err);
    }
    for nothing in ["audit", "nonsense"] {
        assert_eq!(Phasemeter::new(nothing).run().status, 2);
    }
}

#[test]
fn unusable_data_is_65() {
    let outcome = Phasemeter::audit().arg("-").stdin("Failed to initialize NVML\n").run();
    assert_eq!(outcome.status, 65);
    assert!(outcome.refusal().starts_with("standard input, line 1: "), "{outcome:?}");
}

#[test]
fn what_cannot_be_opened_is_66() {
    let folder = tempfile::tempdir().unwrap();
    for (name, told) in [("missing.csv", "missing.csv: "), (".", ".: is a directory")] {
        let outcome = Phasemeter::audit().within(folder.path()).arg(name).run();
        assert_eq!(outcome.status, 66);
        assert!(outcome.refusal().starts_with(told), "{outcome:?}");
    }
}

#[test]
fn what_cannot_be_written_is_74() {
    let outcome = audit(&["--otlp-file", "there-is-no-such-folder/otlp.jsonl"]);
    assert_eq!(outcome.status, 74);
    assert!(outcome.refusal().starts_with("there-is-no-such-folder/otlp.jsonl: "), "{outcome:?}");

    assert!(Path::new(FULL).exists(), "a device that is always full");
    let outcome = audit(&["--otlp-file", FULL]);
    assert_eq!(outcome.status, 74);
    assert!(outcome.refusal().starts_with("/dev/full: "), "{outcome:?}");
    for subcommand in ["audit", "demo"] {
        let full = OpenOptions::new().write(true).open(FULL).unwrap();
        let run = Phasemeter::new(subcommand).stdout(full);
        let run = if subcommand == "audit" { run.arg("-") } else { run };
        let outcome = run.stdin(Plan::default().text()).run();
        assert_eq!(outcome.status, 74, "{outcome:?}");
        assert!(outcome.refusal().contains("the report cannot be written"), "{outcome:?}");
    }
}

#[test]
fn help_and_version_are_0() {
    for args in [&["--help"][..], &["--version"], &["audit", "--help"], &["demo", "--help"]] {
        let outcome = Phasemeter::new(args[0]).args(&args[1..]).run();
        assert_eq!((outcome.status, outcome.err.as_str()), (0, ""), "{args:?}");
        assert!(outcome.out.contains("phasemeter"));
    }
}
