//! GPUs that the driver counts anew while they are metered: after it was replaced, or without one that fell off the bus.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use phasemeter_process::send;
use rustix::process::Signal;
use serde_json::Value;

use crate::run::{
    NO_POLICIES, assert_billed, assert_observed, attribute, elements, phasemeter, run_with_report,
    seconds, started, stderr,
};
use crate::{Rig, now};

/// The account of each GPU, which no other one has.
const ACCOUNTS: [(&str, u32, &str); 4] = [
    ("GPU-a", 95, "compute_bound"),
    ("GPU-b", 20, "underutilized"),
    ("GPU-c", 75, "productive"),
    ("GPU-n", 97, "compute_bound"),
];

fn device(uuid: &str) -> String {
    let (_, percent, _) = ACCOUNTS.iter().find(|(it, ..)| *it == uuid).unwrap();
    format!(
        "[[device]]\nuuid = \"{uuid}\"\n[[device.phase]]\nfor_ms = 600000\nutilization = {percent}\n"
    )
}

/// A driver that started at `start`, and has these GPUs in this order until it is unloaded.
fn driver(start: u64, order: &[&str], unloaded_ms: Option<u64>) -> String {
    let devices: String = order.iter().map(|uuid| device(uuid)).collect();
    let unloaded =
        unloaded_ms.map(|at| format!("[[fault]]\nat_ms = {at}\nerror = \"uninitialized\"\n"));
    format!(
        "start_unix_ms = {start}\nlength_ms = 600000\n{devices}{}",
        unloaded.unwrap_or_default()
    )
}

/// The events of a GPU, in order.
fn events_of(file: &Path, uuid: &str) -> Vec<String> {
    let mut events = elements(file, ["resourceLogs", "scopeLogs", "logRecords"]);
    events.retain(|event| attribute(event, "hw.id") == uuid);
    let time = |event: &Value| event["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap();
    events.sort_by_key(time);
    let name = |event: &Value| event["eventName"].as_str().unwrap().to_owned();
    events.iter().map(|event| name(event).replace("phasemeter.gpu.", "")).collect()
}

/// Checks that these are the GPUs, by index, and that each has its own time and what was unobserved, to the nano-dollar.
#[track_caller]
fn assert_own_accounts(report: &Value, uuids: &[&str]) {
    let gpus = report["gpus"].as_array().unwrap();
    let found: Vec<_> =
        gpus.iter().map(|gpu| (gpu["uuid"].as_str(), gpu["index"].as_u64())).collect();
    let expected: Vec<_> = uuids.iter().copied().map(Some).zip((0..).map(Some)).collect();
    assert_eq!(found, expected, "{report:#}");
    for gpu in gpus {
        assert_billed(gpu);
        let (_, _, account) = ACCOUNTS.iter().find(|(uuid, ..)| gpu["uuid"] == **uuid).unwrap();
        let own = seconds(&gpu["phases"][account]["seconds"]);
        let (unobserved, span) =
            (seconds(&gpu["unobserved_seconds"]), seconds(&gpu["span_seconds"]));
        assert!((own + unobserved - span).abs() < 1e-9 && own > 0.5, "{gpu:#}");
    }
}

/// Scenario: the driver's library is replaced twice within a second, and a third time later. Each counts the GPUs in
/// another order; the last one has lost one of them, and has a new one among the others.
/// Guarantee: names, UUIDs and accounts stay with their GPUs, the new one has an index of its own, each loss is an event
/// and a line, and the command ran.
#[test]
fn replaced_driver_moves_no_name_and_no_account() {
    let (_, start) = now();
    let rig = Rig::new(&driver(start, &["GPU-a", "GPU-b", "GPU-c"], Some(3_000)));
    let dir = tempfile::tempdir().unwrap();
    let [report, file] = ["report.json", "otlp.json"].map(|name| dir.path().join(name));
    let options =
        format!("{NO_POLICIES} --report {} --otlp-file {}", report.display(), file.display());
    let mut command = phasemeter(&rig, &options);
    let (mut run, log) = started(command.args([
        "--",
        "sh",
        "-c",
        "trap 'exit 7' TERM; for i in $(seq 600); do sleep 0.2; done",
    ]));
    log.wait_for("GPU 1: driver unloaded");
    rig.fake.replace(&driver(start, &["GPU-c", "GPU-a", "GPU-b"], Some(3_600))).unwrap();
    thread::sleep(Duration::from_millis(500));
    let back = now().1 - start + 2_500;
    rig.fake.replace(&driver(start, &["GPU-b", "GPU-c", "GPU-a"], Some(back))).unwrap();
    thread::sleep(Duration::from_millis(2_600));
    rig.fake.replace(&driver(start, &["GPU-b", "GPU-n", "GPU-c"], None)).unwrap();
    log.wait_for("GPU 3 (GPU-n) is new");
    thread::sleep(Duration::from_secs(2));
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    let log = log.rest();
    assert_eq!(run.0.wait().unwrap().code(), Some(7), "{log}");

    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_own_accounts(&report, &["GPU-a", "GPU-b", "GPU-c", "GPU-n"]);
    let gpus = report["gpus"].as_array().unwrap();
    for gpu in &gpus[..3] {
        assert_eq!(gpu["unobserved_reasons"][0]["reason"], "gpu_lost", "{gpu:#}");
        assert_eq!(gpu["span_seconds"], gpus[0]["span_seconds"]);
        let uuid = gpu["uuid"].as_str().unwrap();
        let events = events_of(&file, uuid);
        let (lost, recovered) = (["lost"].as_slice(), ["lost", "recovered"].as_slice());
        let is_lost = uuid == "GPU-a";
        assert_eq!(events.last().unwrap(), if is_lost { lost } else { recovered }.last().unwrap());
        assert!(events.chunks(2).all(|pair| lost == pair || recovered == pair), "{events:?}");
        let line = format!("GPU {}: driver unloaded", gpu["index"]);
        assert!(log.matches(&line).count() <= events.len(), "{log}");
    }
    assert_eq!(events_of(&file, "GPU-n")[0], "joined");
}

/// Scenario: one of three GPUs falls off the bus, so that those after it have other indices; another GPU is added, and
/// the lost one returns behind it.
/// Guarantee: each is one GPU of the report with its first index.
#[test]
fn gpu_that_returns_elsewhere_is_the_same_one() {
    let listed = |uuid, from: u32, until: Option<u32>| {
        let until =
            until.map_or(String::new(), |until| format!("listed_for_ms = {}\n", until - from));
        device(uuid).replace(
            "[[device.phase]]",
            &format!("listed_from_ms = {from}\n{until}[[device.phase]]"),
        )
    };
    let devices = [
        listed("GPU-a", 0, None),
        listed("GPU-b", 0, Some(2_500)),
        listed("GPU-c", 0, None),
        listed("GPU-n", 3_500, None),
        listed("GPU-b", 6_000, None),
    ];
    let rig = Rig::new(&format!("length_ms = 600000\n{}", devices.concat()));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--duration 13 {NO_POLICIES} --otlp-file {}", file.display());
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    let log = stderr(&output);
    assert_own_accounts(&report, &["GPU-a", "GPU-b", "GPU-c", "GPU-n"]);
    for healthy in [0, 2] {
        assert_observed(&report["gpus"][healthy]);
    }
    assert_eq!(events_of(&file, "GPU-b"), ["lost", "recovered"], "{log}");
    assert_eq!(events_of(&file, "GPU-n"), ["joined"], "{log}");
    assert_eq!(log.matches("GPU 3 (GPU-n) is new").count(), 1, "{log}");
    assert!(!log.contains(" now, not "), "{log}");
}

/// Scenario: the first GPU falls off the bus, so that the third one has the index of the one that is metered.
/// Guarantee: an index is that of the start, and a neighbor is never metered in its place.
#[test]
fn selected_index_stays_with_its_gpu() {
    let first =
        device("GPU-a").replace("[[device.phase]]", "listed_for_ms = 2500\n[[device.phase]]");
    let devices = [first, device("GPU-b"), device("GPU-c")].concat();
    let rig = Rig::new(&format!("length_ms = 600000\n{devices}"));
    for (option, variable) in [("--gpu 1", None), ("", Some("CUDA_VISIBLE_DEVICES"))] {
        let arguments = format!("--duration 9 {NO_POLICIES} {option}");
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            command.envs(variable.map(|name| (name, "1")));
        });
        let gpus = report["gpus"].as_array().unwrap();
        assert_eq!((gpus.len(), &gpus[0]["uuid"]), (1, &Value::from("GPU-b")), "{report:#}");
        assert_observed(&gpus[0]);
        assert!(seconds(&gpus[0]["span_seconds"]) > 8.9, "{}", stderr(&output));
    }
}
