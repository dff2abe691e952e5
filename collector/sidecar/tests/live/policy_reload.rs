//! Policies during a live run: they are reloaded, and do not slow sampling down.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::mock_backend::MockBackend;
use crate::policies::{hostile, pricer, recommender, recommender_with};
use crate::policy_dir_tree::{NAMES, approved, changes, key};
use crate::run::{
    assert_observed, assumptions, elements, phasemeter, run_with_report, started, started_at,
    stderr,
};
use crate::telemetry::{LastExport, generation, received};
use crate::{Rig, unless_stalled};

/// A GPU for which the guests have recommendations.
const ONE: &str = "[[device]]\nuuid = \"GPU-0\"\n[[device.phase]]\nutilization = 50";

/// Installs a policy atomically: writes a temporary file and renames it.
fn install(dir: &Path, name: &str, bytes: &[u8]) {
    let unfinished = dir.join("unfinished");
    fs::write(&unfinished, bytes).unwrap();
    fs::rename(unfinished, dir.join(name)).unwrap();
}

fn policies(report: &Value) -> &[Value] {
    report["policies"].as_array().unwrap()
}

/// A policy that never returns.
fn spinning(name: &str) -> Vec<u8> {
    recommender_with(
        name,
        '1',
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (loop $again (br $again))
          (unreachable))"#,
    )
}

/// Scenario: guests spin continuously, each until its deadline; windows are due much more often than
/// they can be evaluated.
/// Guarantee: no reading is lost, all time is observed, and the report contains the error of each.
#[test]
fn spinning_policies_do_not_lose_readings() {
    unless_stalled(|| {
        let rig = Rig::new(ONE);
        let dir = tempfile::tempdir().unwrap();
        let windows = dir.path().join("windows");
        fs::create_dir(&windows).unwrap();
        for name in ["one", "two", "three"] {
            fs::write(dir.path().join(format!("{name}.wasm")), spinning(name)).unwrap();
        }
        let arguments = format!(
            "--duration 18 --window-interval 0.25 --no-default-policies --policies {} \
         --dump-windows {} --policy-limit fuel=1000000000000 --policy-limit deadline_ms=300",
            dir.path().display(),
            windows.display()
        );
        let (output, report) = run_with_report(&rig, &arguments, |_| {});
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let dumped = fs::read_dir(&windows).unwrap().count();
        assert!(dumped > 5, "only {dumped} windows: no policy ran during sampling");
        assert!(stderr(&output).contains("policies are too slow"), "{}", stderr(&output));
        assert_observed(&report["gpus"][0]);
        assert!(!assumptions(&report).contains("observations dropped"), "{}", assumptions(&report));
        for policy in policies(&report) {
            assert_eq!(policy["error"]["kind"], "deadline", "{policy}");
            assert!(policy["duration_us"].as_u64() >= Some(300_000), "{policy}");
        }
    });
}

/// Scenario: a pricer spins for a third of a second per quote; the price book lists dozens of instances
/// that are offered.
/// Guarantee: its quotes for offers end after the fuel for all of a window, so no reading is lost.
#[test]
fn slow_pricer_does_not_lose_readings() {
    unless_stalled(|| {
        let rig = Rig::new(ONE);
        let dir = tempfile::tempdir().unwrap();
        let spin = "(i64.store (i32.const 4368) (i64.const 3600000000))
            (i64.store (i32.const 4424)
              (i64.add (local.get $time) (i64.const 3600000000000)))
            (local.set $time (i64.const 100000000))
            (loop $again
              (local.set $time (i64.sub (local.get $time) (i64.const 1)))
              (br_if $again (i64.ne (local.get $time) (i64.const 0))))";
        let policy = dir.path().join("quote.wasm");
        fs::write(&policy, pricer("contract", 0, spin)).unwrap();
        let windows = dir.path().join("windows");
        fs::create_dir(&windows).unwrap();
        let file = dir.path().join("report.json");
        let arguments = format!(
            "--duration 20 --window-interval 1 --no-default-policies --policy {} --dump-windows {} \
             --policy-limit fuel=1000000000000 --policy-limit deadline_ms=60000 \
             --provider aws --region us-east-1 --report {}",
            policy.display(),
            windows.display(),
            file.display()
        );
        // Without a given price.
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.arg("run").args(arguments.split_whitespace()).envs(rig.fake.environment());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_observed(&report["gpus"][0]);
        assert_eq!(policies(&report)[0]["error"], Value::Null, "{report:#}");
        assert!(!assumptions(&report).contains("observations dropped"), "{}", assumptions(&report));
        let dumped: Vec<_> = fs::read_dir(&windows).unwrap().collect();
        assert!(dumped.len() > 1, "no window was built during sampling");
        for window in dumped {
            let window = fs::read(window.unwrap().path()).unwrap();
            let window: Value = serde_json::from_slice(&window).unwrap();
            let offers = window["window"]["offers"].as_array().unwrap();
            let is_quoted = |offer: &&Value| offer.to_string().contains("quoted by");
            assert!(offers.len() > 40, "{offers:#?}");
            assert_eq!(offers.iter().filter(is_quoted).count(), 1, "{offers:#?}");
        }
    });
}

/// Scenario: during a run one policy is replaced, then another one by a broken file.
/// Guarantee: the new one is used from the next window on; the broken one changes nothing and is
/// reported with its error.
#[test]
fn policy_dir_is_reloaded_and_keeps_last_good_policy() {
    let rig = Rig::new(ONE);
    let dir = tempfile::tempdir().unwrap();
    let policies_dir = dir.path().join("policies");
    fs::create_dir(&policies_dir).unwrap();
    install(&policies_dir, "alfa.wasm", &recommender("alfa", '1'));
    install(&policies_dir, "bravo.wasm", &recommender("bravo", '1'));
    let file = dir.path().join("report.json");
    let arguments = format!(
        "--window-interval 0.3 --no-default-policies --policy-limit start_ms=600000 --policies {} \
         --report {}",
        policies_dir.display(),
        file.display()
    );
    let backend = MockBackend::start([]);
    let mut command = phasemeter(&rig, &arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    let (mut child, log) = started(&mut command);
    // Installing the same policy again is logged once the directory is loaded and watched.
    let old = recommender("alfa", '1');
    log.repeat_until("generation 1", || install(&policies_dir, "alfa.wasm", &old));
    install(&policies_dir, "alfa.wasm", &recommender("alfa", '2'));
    log.wait_for("generation 2");
    let broken = policies_dir.join("bravo.wasm").display().to_string();
    install(&policies_dir, "bravo.wasm", b"\0asm, broken");
    log.wait_for("bravo");
    kill_process(Pid::from_child(&child.0), Signal::INT).unwrap();
    let rest = log.rest();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "{rest}");

    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let used: Vec<_> = policies(&report)
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), &it["version"], it["error"]["kind"].as_str()))
        .collect();
    let expected = [
        ("alfa", &"2".into(), None),
        ("bravo", &"1".into(), None),
        (broken.as_str(), &Value::Null, Some("load.unreadable")),
    ];
    assert_eq!(used, expected);
    assert_eq!(policies(&report)[0]["generation"], 2, "the broken file made no generation");
    // Each generation has series of its own.
    let exports = received(&backend.received()).own;
    let exported = exports.iter().flat_map(|export| {
        let export = LastExport(export);
        let status = "phasemeter.policy.status";
        let points = export.metric(status).map(|_| export.sum(status)).unwrap_or_default();
        points.iter().map(generation).collect::<Vec<_>>()
    });
    assert_eq!(exported.collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
}

/// A policy with a very long function, which takes long to compile.
fn heavy(name: &str) -> Vec<u8> {
    let body = "(local.set 0 (i32.add (i32.mul (local.get 0) (local.get 0)) (i32.const 7)))\n"
        .repeat(40_000);
    let function = format!("(func $heavy (param i32) (result i32)\n{body}(local.get 0))");
    recommender_with(name, '1', &function)
}

/// Scenario: policies take longer to load than the command waits for them.
/// Guarantee: the command starts without them; they price and recommend from the first reading on,
/// since readings wait.
#[test]
fn command_starts_while_policies_are_loaded() {
    let rig = Rig::new(ONE);
    let dir = tempfile::tempdir().unwrap();
    let policies_dir = dir.path().join("policies");
    fs::create_dir(&policies_dir).unwrap();
    install(&policies_dir, "alfa.wasm", &heavy("alfa"));
    let in_an_hour = "(i64.store (i32.const 4424)
        (i64.add (local.get $time) (i64.const 3600000000000)))";
    install(&policies_dir, "quote.wasm", &pricer("contract", 2, in_an_hour));
    let file = dir.path().join("report.json");
    let arguments = format!(
        "--no-default-policies --policy-limit start_ms=1 --policy-limit compile_seconds=600 \
         --policy-cache {} --policies {} --report {}",
        dir.path().join("cache").display(),
        policies_dir.display(),
        file.display()
    );
    let go = dir.path().join("go");
    let script = format!("echo begun >&2; until [ -e {} ]; do sleep 0.05; done", go.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.arg("run").args(arguments.split_whitespace()).args(["--", "sh", "-c", &script]);
    command.envs(rig.fake.environment()).stdin(Stdio::null());
    let (mut child, log) = started_at("policies are still loading", &mut command);
    log.wait_for("policy generation 1 is active");
    fs::write(&go, "").unwrap();
    let rest = log.rest();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "{rest}");
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let used: Vec<_> = policies(&report).iter().map(|it| it["error"]["kind"].as_str()).collect();
    assert_eq!(used, [None, None], "{report:#}");
    let price = &report["gpus"][0]["price"];
    assert!(price["source"].as_str().unwrap().contains("contract"), "{price:#}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    /// Scenario: a policy directory contains files of any type, link, owner and mode.
    /// Guarantee: the command runs, and only what is approved is in use.
    #[test]
    fn command_runs_whatever_the_policy_directory_contains(
        signed in any::<bool>(),
        steps in vec(changes(12), 1..4),
    ) {
        let rig = Rig::new(ONE);
        let dir = tempfile::tempdir().unwrap();
        let (policies_dir, trusted) = (dir.path().join("policies"), dir.path().join("team.key"));
        fs::create_dir(&policies_dir).unwrap();
        fs::write(&trusted, key().to_string()).unwrap();
        let mut arguments = format!(
            "--no-default-policies --policy-cache {} --policies {}",
            dir.path().join("cache").display(),
            policies_dir.display()
        );
        if signed {
            arguments += &format!(" --policy-key {}", trusted.display());
        }
        for changes in steps {
            changes.apply(&policies_dir);
            let (output, report) = run_with_report(&rig, &arguments, |command| {
                command.args(["--", "sh", "-c", "exit 7"]);
            });
            let log = stderr(&output);
            assert_eq!(output.status.code(), Some(7), "{log}");
            assert!(!log.contains('\u{1b}') && log.len() < 100_000, "{log}");
            for digest in policies(&report).iter().filter_map(|it| it["digest"].as_str()) {
                let is_approved = |name: &&str| approved(&policies_dir, name, digest, signed);
                assert!(NAMES.iter().any(is_approved), "{changes:?}: {digest} is not approved");
            }
        }
    }
}

/// An unchanged recommendation is exported once, however many windows are evaluated.
#[test]
fn unchanged_recommendation_is_exported_once() {
    let rig = Rig::new(ONE);
    let dir = tempfile::tempdir().unwrap();
    let (policy, otlp) = (dir.path().join("honest.wasm"), dir.path().join("otlp.json"));
    fs::write(&policy, hostile("honest")).unwrap();
    let arguments = format!(
        "--duration 17 --window-interval 0.3 --no-default-policies --policy {} --otlp-file {}",
        policy.display(),
        otlp.display()
    );
    let output = phasemeter(&rig, &arguments).output().unwrap();
    let events = elements(&otlp, ["resourceLogs", "scopeLogs", "logRecords"]);
    assert_eq!(events.len(), 1, "{events:#?}\n{}", stderr(&output));
    assert_eq!(events[0]["eventName"], "phasemeter.recommendation.made");
    assert!(stderr(&output).contains("Share it"), "{}", stderr(&output));
}
