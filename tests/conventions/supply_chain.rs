//! What the checks of dependencies report, whatever can be reached.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::repository::root;

/// A program in place of cargo-deny: what its arguments match fails.
fn deny(name: &str, failing: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let script = format!("#!/bin/sh\necho \"deny $*\"\ncase \"$*\" in {failing}) exit 1;; esac\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The step of CI that checks dependencies.
fn check(deny: &Path) -> (bool, String) {
    let step = format!("dependencies: make --no-print-directory deny DENY={}", deny.display());
    let output = Command::new(root().join(".ci/steps")).arg(step).env("CI", "1").output().unwrap();
    let Output { status, stdout, .. } = output;
    (status.success(), String::from_utf8(stdout).unwrap())
}

/// The summary is what follows the last empty line.
fn summary(text: &str) -> &str {
    text.trim_end().rsplit("\n\n").next().unwrap()
}

#[test]
fn unreachable_advisories_are_in_the_summary_and_a_vulnerability_fails() {
    let (passed, text) = check(&deny("deny-offline", "'fetch db'"));
    assert!(
        passed && summary(&text).contains("\n    NOT CHECKED: known vulnerabilities"),
        "{text}"
    );
    assert!(text.contains("check bans licenses sources") && !text.contains("check --disable"));

    let (passed, text) = check(&deny("deny-vulnerable", "*advisories"));
    assert!(!passed && summary(&text).starts_with("FAILED"), "{text}");
    assert!(!text.contains("NOT CHECKED"), "{text}");

    let (passed, text) = check(&deny("deny-clean", "nothing"));
    assert!(passed && !text.contains("NOT CHECKED"), "{text}");
    let checked = text.lines().filter(|line| line.ends_with("check --disable-fetch advisories"));
    assert_eq!(checked.count(), 2, "those of policies too: {text}");
}
