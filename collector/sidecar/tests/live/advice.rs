//! Policies beside a live run: they are swapped while it goes on, and none of them slows it down.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::Rig;
use crate::backend::Backend;
use crate::policies::{hostile, recommender, recommender_with};
use crate::run::{assert_observed, assumptions, phasemeter, reported, stderr, told};
use crate::telemetry::{arrived, generation};

/// A GPU that the guests advise on.
const ONE: &str = "[[device]]\nuuid = \"GPU-0\"\n[[device.phase]]\nutilization = 50";

/// Puts a policy there as careful people do: under another name, and then in its place.
fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let unfinished = folder.join("unfinished");
    fs::write(&unfinished, bytes).unwrap();
    fs::rename(unfinished, folder.join(name)).unwrap();
}

fn policies(report: &Value) -> &[Value] {
    report["policies"].as_array().unwrap()
}

/// A policy of this name that never comes back.
fn spinning(name: &str) -> Vec<u8> {
    recommender_with(
        name,
        '1',
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (loop $again (br $again))
          (unreachable))"#,
    )
}

/// Scenario: from the moment that readings are settled, guests spin without a pause, each for as
/// long as it may; a window is due much more often than they take.
/// Guarantee: no reading is lost, all time is observed, and the report names the fault of each.
#[test]
fn guests_that_spin_cost_no_reading() {
    let rig = Rig::new(ONE);
    let folder = tempfile::tempdir().unwrap();
    let windows = folder.path().join("windows");
    fs::create_dir(&windows).unwrap();
    for name in ["one", "two", "three"] {
        fs::write(folder.path().join(format!("{name}.wasm")), spinning(name)).unwrap();
    }
    let arguments = format!(
        "--duration 18 --window-interval 0.25 --no-default-policies --policies {} \
         --dump-windows {} --policy-limit fuel=1000000000000 --policy-limit deadline_ms=300",
        folder.path().display(),
        windows.display()
    );
    let (output, report) = reported(&rig, &arguments, |_| {});
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = fs::read_dir(&windows).unwrap().count();
    assert!(shown > 5, "only {shown} windows were shown: nothing ran beside the sampler");
    assert!(stderr(&output).contains("policies are too slow"), "{}", stderr(&output));
    assert_observed(&report["gpus"][0]);
    assert!(!assumptions(&report).contains("were lost"), "{}", assumptions(&report));
    for policy in policies(&report) {
        assert_eq!(policy["fault"]["kind"], "deadline", "{policy}");
        assert!(policy["microseconds"].as_u64() >= Some(300_000), "{policy}");
    }
}

/// Scenario: while a run goes on, a policy is replaced, then another broken.
/// Guarantee: the new one is used from the next window on; the broken one changes nothing and is
/// named with its fault.
#[test]
fn a_folder_is_reloaded_and_the_last_good_policy_kept() {
    let rig = Rig::new(ONE);
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "alfa.wasm", &recommender("alfa", '1'));
    put(folder.path(), "bravo.wasm", &recommender("bravo", '1'));
    let shelf = folder.path().to_owned();
    let swaps = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        put(&shelf, "alfa.wasm", &recommender("alfa", '2'));
        thread::sleep(Duration::from_millis(3_500));
        put(&shelf, "bravo.wasm", b"\0asm, broken");
    });
    let arguments = format!(
        "--duration 8 --window-interval 0.3 --no-default-policies --policies {}",
        folder.path().display()
    );
    let backend = Backend::start([]);
    let (output, report) = reported(&rig, &arguments, |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    });
    swaps.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_observed(&report["gpus"][0]);
    let told: Vec<_> = policies(&report)
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), &it["version"], it["fault"]["kind"].as_str()))
        .collect();
    let broken = folder.path().join("bravo.wasm").display().to_string();
    let wanted = [
        ("alfa", &"2".into(), None),
        ("bravo", &"1".into(), None),
        (broken.as_str(), &Value::Null, Some("load.unreadable")),
    ];
    assert_eq!(told, wanted);
    assert_eq!(policies(&report)[0]["generation"], 2, "the broken file made no generation");
    let said = stderr(&output);
    assert!(said.contains("generation 2"), "{said}");
    // Each is told of when it is over, and the last at the end; the minute of exports was not.
    let told: Vec<_> = arrived(&backend.rest()).generations.iter().filter_map(generation).collect();
    assert_eq!(told, [1, 2]);
}

/// Advice that stays the same is told once, however many windows are judged: those of the last
/// seconds, and the last one.
#[test]
fn advice_is_told_when_it_is_new() {
    let rig = Rig::new(ONE);
    let folder = tempfile::tempdir().unwrap();
    let (policy, otlp) = (folder.path().join("honest.wasm"), folder.path().join("otlp.json"));
    fs::write(&policy, hostile("honest")).unwrap();
    let arguments = format!(
        "--duration 17 --window-interval 0.3 --no-default-policies --policy {} --otlp-file {}",
        policy.display(),
        otlp.display()
    );
    let output = phasemeter(&rig, &arguments).output().unwrap();
    let events = told(&otlp, ["resourceLogs", "scopeLogs", "logRecords"]);
    assert_eq!(events.len(), 1, "{events:#?}\n{}", stderr(&output));
    assert_eq!(events[0]["eventName"], "phasemeter.recommendation");
    assert!(stderr(&output).contains("Share it"), "{}", stderr(&output));
}
