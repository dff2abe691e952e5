//! The templates of policies, each built by the real tools of its language: they say the same, byte
//! for byte, and run within the limits that are the default.
//!
//! `make test-backends` installs the tools and runs this. Plain `cargo test` reports it as skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

mod toolchains;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use tempfile::TempDir;

/// The windows that every template has in its tests.
const WINDOWS: [&str; 3] = ["fleet", "nothing", "strict"];

/// A policy that was made of a template.
struct Template {
    language: &'static str,
    /// The folder that it stands in, under the name `idle`.
    home: PathBuf,
    path: OsString,
    /// Where compiled policies are kept, so that each is compiled once.
    cache: PathBuf,
}

impl Template {
    /// Starts it.
    fn new(language: &'static str, scratch: &TempDir, path: OsString) -> Self {
        let home = scratch.path().join(language);
        fs::create_dir(&home).unwrap();
        let template = Self { language, home, path, cache: scratch.path().join("cache") };
        template.phasemeter(&["new", "--lang", language, "idle"]);
        if language == "rust" {
            // What was compiled of it stays for the next time.
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("template");
            fs::create_dir_all(&target).unwrap();
            symlink(target, template.folder().join("target")).unwrap();
        }
        template
    }

    fn folder(&self) -> PathBuf {
        self.home.join("idle")
    }

    /// Where its tools leave it.
    fn wasm(&self) -> String {
        let plan = fs::read(self.folder().join("policy.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
        format!("idle/{}", plan["wasm"].as_str().unwrap())
    }

    /// What `phasemeter policy …` prints.
    fn phasemeter(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .arg("policy")
            .args(args)
            .current_dir(&self.home)
            .env("PATH", &self.path)
            .env("XDG_CACHE_HOME", &self.cache)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        let stdout = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{}: {args:?}: {status}\n{stdout}{stderr}", self.language);
        stdout
    }

    /// Builds it, tests it, and tells what it says of each window.
    fn advice(&self) -> Vec<String> {
        // The compiler of a test build is slower than its limit allows for.
        let patience = ["--limit", "compile_seconds=600"];
        println!("{}", self.phasemeter(&[&["build", "idle"], &patience[..]].concat()));
        let tested = self.phasemeter(&[&["test", "idle"], &patience[..]].concat());
        assert_eq!(tested.matches(": as expected\n").count(), WINDOWS.len(), "{tested}");

        let wasm = self.wasm();
        let advice = WINDOWS.map(|name| {
            let window = format!("idle/tests/{name}.window.json");
            let settings = format!("idle/tests/{name}.settings.json");
            let mut args = vec!["run", &wasm, "--format", "json", "--window", &window];
            if self.home.join(&settings).exists() {
                args.extend(["--settings", &settings]);
            }
            self.phasemeter(&args)
        });
        let window = "idle/tests/fleet.window.json";
        let bench = ["bench", &wasm, "--window", window, "--runs", "20"];
        println!("{}", self.phasemeter(&[&bench, &patience[..]].concat()));
        advice.into()
    }
}

/// Scenario: a policy of each template, made by `policy new`, built as its own page says.
/// Guarantee: each says what is expected, within the default limits, and all four say the same to
/// the last byte.
#[test]
fn templates_in_four_languages_say_the_same() {
    let Some(path) = toolchains::path() else { return };
    let scratch = TempDir::new().unwrap();
    let said = thread::scope(|scope| {
        let each = ["rust", "c", "js", "python"].map(|language| {
            let template = Template::new(language, &scratch, path.clone());
            scope.spawn(move || (language, template.advice()))
        });
        each.map(|template| template.join().unwrap())
    });
    let (_, first) = &said[0];
    assert!(
        first[0].contains("idle.bin_pack") && first[0].contains("idle.schedule"),
        "{}",
        first[0]
    );
    for (language, advice) in &said[1..] {
        assert_eq!(advice, first, "{language} says something else");
    }
}
