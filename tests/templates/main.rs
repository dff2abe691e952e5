//! Policy templates, each built with the real tools of its language, produce byte-identical
//! recommendations within the default fuel and memory limits.
//!
//! `make test-backends` installs the tools and runs this. Plain `cargo test` reports it as skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed test may panic"
)]

mod toolchains;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use tempfile::TempDir;

/// The windows in the tests of every template.
const WINDOWS: [&str; 3] = ["fleet", "nothing", "strict"];

/// A policy created from a template.
struct Template {
    language: &'static str,
    /// The directory that contains it as `idle`.
    home: PathBuf,
    path: OsString,
    /// Cache of compiled policies, so that each is compiled once.
    cache: PathBuf,
}

impl Template {
    /// Creates it.
    fn new(language: &'static str, options: &[&str], scratch: &TempDir, path: OsString) -> Self {
        let name = [&[language], options].concat().concat();
        let home = scratch.path().join(&name);
        fs::create_dir(&home).unwrap();
        let template = Self { language, home, path, cache: scratch.path().join("cache") };
        template.phasemeter(&[&["new", "--lang", language], options, &["idle"]].concat());
        if language == "rust" {
            // Keep the build for the next run.
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("template-{name}"));
            fs::create_dir_all(&target).unwrap();
            symlink(target, template.dir().join("target")).unwrap();
        }
        template
    }

    fn dir(&self) -> PathBuf {
        self.home.join("idle")
    }

    /// Path of the built module.
    fn wasm(&self) -> String {
        let plan = fs::read(self.dir().join("policy.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
        format!("idle/{}", plan["wasm"].as_str().unwrap())
    }

    /// The output of `phasemeter policy …`.
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

    /// Builds and tests it, and returns its recommendations for each window.
    fn recommendations(&self) -> Vec<String> {
        // A test build compiles slowly, and a busy machine runs slowly: fuel and memory are the limits
        // that apply.
        let limits = ["--limit", "compile_seconds=600", "--limit", "deadline_ms=600000"];
        println!("{}", self.phasemeter(&[&["build", "idle"], &limits[..]].concat()));
        let tested = self.phasemeter(&[&["test", "idle"], &limits[..]].concat());
        assert_eq!(tested.matches(": OK\n").count(), WINDOWS.len(), "{tested}");

        let wasm = self.wasm();
        let recommendations = WINDOWS.map(|name| {
            let window = format!("idle/tests/{name}.window.json");
            let settings = format!("idle/tests/{name}.settings.json");
            let mut args = vec!["run", &wasm, "--format", "json", "--window", &window];
            if self.home.join(&settings).exists() {
                args.extend(["--settings", &settings]);
            }
            self.phasemeter(&[&args[..], &limits].concat())
        });
        let window = "idle/tests/fleet.window.json";
        let bench = ["bench", &wasm, "--window", window, "--runs", "20"];
        println!("{}", self.phasemeter(&[&bench, &limits[..]].concat()));
        recommendations.into()
    }
}

/// Scenario: a policy from each template, created by `policy new` and built as its README describes.
/// Guarantee: each produces the expected recommendations within the default limits, and all four
/// outputs are byte-identical.
#[test]
fn templates_produce_identical_recommendations() {
    let Some(path) = toolchains::path() else { return };
    let scratch = TempDir::new().unwrap();
    let recommendations = thread::scope(|scope| {
        let each = ["rust", "c", "js", "python"].map(|language| {
            let template = Template::new(language, &[], &scratch, path.clone());
            scope.spawn(move || (language, template.recommendations()))
        });
        each.map(|template| template.join().unwrap())
    });
    let (_, first) = &recommendations[0];
    assert!(
        first[0].contains("idle.bin_pack") && first[0].contains("idle.schedule"),
        "{}",
        first[0]
    );
    for (language, other) in &recommendations[1..] {
        assert_eq!(other, first, "{language} differs");
    }
}

/// Scenario: the pricer of each language and the larger recommender, created by `policy new`.
/// Guarantee: each produces what its tests expect within the default limits, the pricers the same.
#[test]
fn pricers_and_example_pass_their_tests() {
    let Some(path) = toolchains::path() else { return };
    let scratch = TempDir::new().unwrap();
    let limits = ["--limit", "compile_seconds=600", "--limit", "deadline_ms=600000"];
    let pricer = &["--kind", "pricer"][..];
    let example = &["--example"][..];
    let pricers = ["rust", "c", "js", "python"].map(|language| (language, pricer, 2)).into_iter();
    for (language, options, tests) in pricers.chain([("rust", example, 1)]) {
        let template = Template::new(language, options, &scratch, path.clone());
        template.phasemeter(&[&["build", "idle"], &limits[..]].concat());
        let tested = template.phasemeter(&[&["test", "idle"], &limits[..]].concat());
        assert_eq!(tested.matches(": OK\n").count(), tests, "{language}: {tested}");
    }
}
