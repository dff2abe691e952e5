//! Policies of a test in a directory, and a log for which they have recommendations.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::phasemeter::Phasemeter;
use crate::policies::{pricer, recommender_with};

/// A log of one GPU at this utilization for 75 minutes, for which the guests have recommendations.
pub(crate) fn log(percent: u64) -> String {
    let head = "timestamp, uuid, name, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    (0..=150).fold(head, |log, tick| {
        let (minute, second) = (tick / 2, tick % 2 * 30);
        let (hour, minute) = (minute / 60, minute % 60);
        let at = format!("2026/07/27 0{hour}:{minute:02}:{second:02}.000");
        log + &format!("{at}, GPU-0, NVIDIA H100 80GB HBM3, {percent} %, 40000 MiB\n")
    })
}

/// A directory of policy files.
pub(crate) struct PolicyFiles(TempDir);

impl PolicyFiles {
    pub(crate) fn new(policies: &[(&str, Vec<u8>)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in policies {
            fs::write(dir.path().join(format!("{name}.wasm")), bytes).unwrap();
        }
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An audit with these policies only, in this order. Their wall-clock limits are generous: on a
    /// busy machine fuel and memory must still be the limits that apply.
    pub(crate) fn audit(&self, names: &[&str]) -> Phasemeter {
        let run = Phasemeter::audit().within(self.0.path());
        let run = run.args(["-", "--no-default-policies", "--policy-cache", "cache"]);
        let run = run.args(["--policy-limit", "deadline_ms=600000"]);
        let run = run.args(["--policy-limit", "compile_seconds=600"]);
        names.iter().fold(run, |run, name| run.args(["--policy", &format!("{name}.wasm")]))
    }
}

/// A recommender with this saving on a target, given by its number in the contract.
pub(crate) fn recommending(name: &str, target: u8, saving: [f64; 3]) -> Vec<u8> {
    recommending_with(name, target, saving, 0.5)
}

/// The same with this confidence.
pub(crate) fn recommending_with(
    name: &str,
    target: u8,
    saving: [f64; 3],
    confidence: f64,
) -> Vec<u8> {
    let [low, expected, high] = saving;
    // A part of a GPU and another price are no alternatives.
    let lever = match target {
        RATE => {
            "(i32.store (i32.const 336) (i32.const 0x746f7073)) (i32.store (i32.const 2064) (i32.const 4))"
        }
        _ => "",
    };
    let recommend = format!(
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (drop (call $recommendation)) {lever}
          (i32.store8 (i32.const 2056) (i32.const {target}))
          (f64.store (i32.const 2096) (f64.const {low}))
          (f64.store (i32.const 2104) (f64.const {expected}))
          (f64.store (i32.const 2112) (f64.const {high}))
          (f64.store (i32.const 2120) (f64.const {confidence}))
          (i32.const 1792))"#
    );
    recommender_with(name, '1', &recommend)
}

/// A recommender with evidence and an action for automation.
pub(crate) fn acting() -> Vec<u8> {
    let recommend = r#"(data (i32.const 8192) "nvidia.mig" "profile" "1g.10gb" "idle_gpus" "GPUs")
        (func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (drop (call $recommendation))
          (call $text (i32.const 3072) (i32.const 8216) (i32.const 9))
          (f64.store (i32.const 3080) (f64.const 3))
          (call $text (i32.const 3088) (i32.const 8225) (i32.const 4))
          (call $text (i32.const 2128) (i32.const 3072) (i32.const 1))
          (i32.store8 (i32.const 2148) (i32.const 1))
          (call $text (i32.const 2152) (i32.const 8192) (i32.const 10))
          (call $text (i32.const 2160) (i32.const 3200) (i32.const 1))
          (call $text (i32.const 3200) (i32.const 8202) (i32.const 7))
          (call $text (i32.const 3208) (i32.const 8209) (i32.const 7))
          (i32.const 1792))
        (func $text (param $at i32) (param $from i32) (param $length i32)
          (i32.store (local.get $at) (local.get $from))
          (i32.store offset=4 (local.get $at) (local.get $length)))"#;
    recommender_with("good", '1', recommend)
}

/// A pricer that quotes $2 per hour, reserved for a year under contract 4711, until half an hour into
/// the log.
pub(crate) fn quoting() -> Vec<u8> {
    let until = (1_785_110_400_u64 + 1_800) * 1_000_000_000;
    let quote = format!("(i64.store (i32.const 4424) (i64.const {until}))");
    pricer("contract 4711", RESERVED_ONE_YEAR, &quote)
}

/// A plan and targets by their numbers in the contract.
const RESERVED_ONE_YEAR: u8 = 2;
pub(crate) const UNDERLOAD: u8 = 2;
pub(crate) const RATE: u8 = 3;
