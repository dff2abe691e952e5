//! Random fleets: what recommendations promise is what they save.
//!
//! `make bench` measures 1,000 fleets. These are fewer, but enough that a tenth of confidence with 30 cases is not off
//! by chance.

use std::path::Path;

use phasemeter_fleets::{Audit, simulate};

use crate::promises;

/// Numbers that `make bench` does not use.
const FLEETS: std::ops::Range<u64> = 10_000..10_300;

#[test]
fn promised_savings_are_true_on_random_fleets() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_phasemeter"));
    let check = |number: u64, report: &_| promises::check(report, &format!("fleet {number}"));
    let score = simulate(Audit { program, dir: dir.path() }, FLEETS, &check);
    let score = score.unwrap_or_else(|error| panic!("{error}"));
    println!("{score}");
    assert_eq!(score.broken_bounds(), Vec::<String>::new());
}
