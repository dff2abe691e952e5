//! The first command that a visitor runs compiles few crates.

use std::collections::BTreeSet;
use std::process::Command;

use crate::repository::{read, root};

/// The value of a variable of the Makefile.
fn variable(makefile: &str, name: &str) -> String {
    makefile
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(":="))
        .unwrap_or_else(|| panic!("Makefile: no {name}"))
        .trim()
        .to_owned()
}

/// Of the flags of `cargo run`, those that choose features.
fn feature_flags(flags: &str) -> Vec<&str> {
    let mut chosen = Vec::new();
    let mut words = flags.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--features" | "-F" => chosen.extend([word, words.next().unwrap()]),
            "--no-default-features" | "--all-features" => chosen.push(word),
            _ if word.starts_with("--features=") => chosen.push(word),
            _ => {}
        }
    }
    chosen
}

#[test]
fn demo_compiles_no_more_crates_than_committed() {
    let makefile = read("Makefile");
    let most: usize = variable(&makefile, "DEMO_CRATES").parse().unwrap();
    let flags = variable(&makefile, "DEMO_FLAGS");
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["tree", "--locked", "--offline", "--package", "phasemeter"])
        .args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .args(feature_flags(&flags))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    // `name v1.2.3`, then perhaps ` (proc-macro)` or a path.
    let crates: BTreeSet<_> = tree
        .lines()
        .map(|line| line.split(" (").next().unwrap())
        .filter(|package| !package.is_empty())
        .collect();
    println!("{} crates", crates.len());
    assert!(
        crates.len() <= most,
        "`make demo` compiles {} crates, more than DEMO_CRATES ({most}): use features to leave \
         some out, or justify the larger number",
        crates.len()
    );
}

#[test]
fn feature_flags_are_taken_from_run_flags() {
    let flags = "--profile demo --no-default-features --features demo,report -q";
    assert_eq!(feature_flags(flags), ["--no-default-features", "--features", "demo,report"]);
    assert!(feature_flags("").is_empty());
}
