//! The binary as users run it, on the scripted driver.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Rig;

/// What the environment of a test must not bring along.
const FOREIGN: [&str; 11] = [
    "TRACEPARENT",
    "TRACESTATE",
    "BAGGAGE",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "PHASEMETER_LOG_LEVEL",
    "PHASEMETER_LOG_FORMAT",
];

/// A nano-dollar each microsecond: the bill is the time, to the nano-dollar.
const PRICE: &str = "--price=3.6";

pub(crate) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// `phasemeter run` with the rig's driver. `arguments` are split at blanks.
pub(crate) fn phasemeter(rig: &Rig, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.arg("run").arg(PRICE).args(arguments.split_whitespace());
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.envs(rig.fake.environment()).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// As [`phasemeter`], around a shell that runs `script`.
pub(crate) fn around(rig: &Rig, arguments: &str, script: &str) -> Command {
    let mut command = phasemeter(rig, arguments);
    command.args(["--", "sh", "-c", script]);
    command
}

/// Runs it to its end with `--report`; the report with it.
pub(crate) fn reported(
    rig: &Rig,
    arguments: &str,
    change: impl FnOnce(&mut Command),
) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let mut command = phasemeter(rig, &format!("--report {} {arguments}", report.display()));
    change(&mut command);
    let output = command.output().unwrap();
    let told = stderr(&output);
    let json = fs::read(&report).unwrap();
    (output, serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {told}")))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub(crate) fn assumptions(report: &Value) -> String {
    let lines = report["assumptions"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// It costs what its time costs, to the nano-dollar.
#[track_caller]
pub(crate) fn assert_billed(gpu: &Value) {
    let micros = (seconds(&gpu["span_seconds"]) * 1e9).round() / 1e3;
    assert_eq!(gpu["cost_usd"], format!("{:.9}", micros.floor() / 1e9), "{gpu:#}");
}

/// It was billed, and seen all the time.
#[track_caller]
pub(crate) fn assert_observed(gpu: &Value) {
    assert_billed(gpu);
    assert_eq!(gpu["unobserved_seconds"], 0.0, "{gpu:#}");
}

/// Starts it and waits until it said that it meters.
fn started(command: &mut Command) -> (Child, impl Read + use<>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("phasemeter: GPUs metered"), "{line}");
    (child, told)
}

#[test]
fn every_second_is_in_its_phase_and_costs_what_it_costs() {
    let rig = Rig::new(
        "[driver]
        window_ms = 0
        [[device]]
        [[device.phase]]
        utilization = 95
        [[device]]
        [[device.phase]]
        utilization = 30
        [[device]]
        [[device.phase]]
        memory_used_mib = 4000
        [[device]]
        [[device.phase]]
        for_ms = 1200
        [[device.phase]]
        for_ms = 700
        utilization = 100
        [[device.phase]]",
    );
    let (output, report) = reported(&rig, "--duration 2.6", |_| {});
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty(), "the report is on standard error");
    let gpus = report["gpus"].as_array().unwrap();
    for (gpu, phase) in gpus.iter().zip(["compute_bound", "underutilized", "idle_held"]) {
        assert_observed(gpu);
        assert!(seconds(&gpu["span_seconds"]) > 2.0);
        assert_eq!(gpu["phases"][phase]["seconds"], gpu["span_seconds"], "{gpu:#}");
    }
    // Its 0.7 s are in the driver's samples.
    let bursts = &gpus[3];
    assert_observed(bursts);
    assert_eq!(bursts["utilization"]["basis"], "nvml.samples");
    let busy = seconds(&bursts["effective_seconds"]);
    assert!((busy - 0.7).abs() < 0.1, "{busy} s");

    let told = stderr(&output);
    assert!(told.contains("this machine") && told.contains("compute-bound"), "{told}");
    assert!(assumptions(&report).contains("OTEL_EXPORTER_OTLP_ENDPOINT is not set"));
}

#[test]
fn only_what_the_workload_sees_is_billed() {
    let rig = Rig::new(&"[[device]]\n".repeat(8));
    let visible = |command: &mut Command| {
        command.env("CUDA_VISIBLE_DEVICES", "0,1");
    };
    let (output, report) = reported(&rig, "--duration 0.4", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [0, 1]);
    assert_eq!(report["cost"]["hourly_usd"], "7.200000000");
    let line = "GPUs metered: 2 of 8, as CUDA_VISIBLE_DEVICES says: 0, 1";
    assert!(stderr(&output).contains(line) && assumptions(&report).contains(line));

    let (_, report) = reported(&rig, "--duration 0.3 --gpu 7 --gpu 2", visible);
    let indices: Vec<_> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| gpu["index"].clone()).collect();
    assert_eq!(indices, [2, 7]);
}

#[test]
fn a_command_ends_as_if_nobody_stood_beside_it() {
    let rig = Rig::new("[[device]]");
    let table = [
        ("echo mine; exit 3", 3, "mine\n"),
        ("kill -9 $$", 137, ""),
        ("exec >&- 2>&- <&-; sleep 0.3; exit 4", 4, ""),
        ("exit 0", 0, ""),
    ];
    for (script, status, stdout) in table {
        let output = around(&rig, "", script).output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{script}: {told}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{script}");
        assert!(told.contains("Experiment"), "{script}: {told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    for (program, status) in [(folder.path().join("none"), 127), (file, 126)] {
        let output = phasemeter(&rig, "--").arg(&program).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be run"), "{}", stderr(&output));
    }
}

/// What fits a buffer fails only when that is written out, at the end.
#[test]
fn a_full_disk_is_told_and_costs_the_run_nothing() {
    let rig = Rig::new("[[device]]");
    let output = phasemeter(&rig, "--duration 1 --otlp-file /dev/full").output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("the OTLP file is given up: No space left on device"), "{told}");
    assert!(told.contains("Experiment"), "{told}");
}

#[test]
fn a_command_gets_the_signals() {
    let rig = Rig::new("[[device]]");
    let table = [
        // Batch systems announce the end by it.
        (Signal::USR1, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done", 7),
        // It is waited for.
        (Signal::TERM, "trap '' TERM; echo ready; sleep 0.7; exit 5", 5),
        (Signal::TERM, "echo ready; exec sleep 60", 143),
    ];
    for (signal, script, status) in table {
        let mut command = around(&rig, "", script);
        let (mut child, mut told) = started(command.stdout(Stdio::piped()));
        let mut ready = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        thread::sleep(Duration::from_millis(50));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut report = String::new();
        told.read_to_string(&mut report).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status), "{script}: {report}");
        assert!(report.contains("Bill"), "{report}");
    }
}

#[test]
fn without_a_command_a_signal_ends_it_with_a_report() {
    let rig = Rig::new("[[device]]");
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut told) = started(&mut phasemeter(&rig, ""));
        thread::sleep(Duration::from_millis(600));
        let began = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut report = String::new();
        told.read_to_string(&mut report).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{report}");
        assert!(report.contains("Bill"), "{report}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

/// What the lines of an OTLP file hold, down this path of lists.
pub(crate) fn told(file: &Path, path: [&str; 3]) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    path.iter().fold(lines.collect(), |values: Vec<Value>, key| {
        let lists = values.iter().filter_map(|value| value[key].as_array());
        lists.flatten().cloned().collect()
    })
}

pub(crate) fn spans(file: &Path) -> Vec<Value> {
    told(file, ["resourceSpans", "scopeSpans", "spans"])
}

/// An attribute that is a text.
pub(crate) fn attribute(of: &Value, key: &str) -> String {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.unwrap_or_else(|| panic!("no {key}: {of:#}"))["value"]["stringValue"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub(crate) fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn a_dead_backend_costs_no_dollar_and_the_end_does_not_wait_for_it() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let began = Instant::now();
    let (output, report) = reported(&rig, "--duration 0.6", |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    });
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(0));
    assert_observed(&report["gpus"][0]);
    let told = assumptions(&report);
    assert!(told.contains("metrics, http/protobuf to http://127.0.0.1:9"), "{told}");
    assert!(told.contains("left unsent; the last error:"), "{told}");
}

#[test]
fn without_a_driver_there_is_one_clear_line_and_no_command_is_run() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libnvidia-ml.so.1"), "no library").unwrap();
    let mut command = around(&rig, "", "echo ran");
    let output = command.env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(output.stdout.is_empty());
    let told = stderr(&output);
    assert!(told.starts_with("phasemeter: no NVIDIA driver:"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");

    let output = phasemeter(&rig, "--gpu 5").output().unwrap();
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("--gpu: no GPU is called `5`"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_used_is_said_before_anything_runs() {
    let rig = Rig::new("[[device]]");
    let refused = |arguments: &str, variable: (&str, &OsStr), status| {
        let output = around(&rig, arguments, "echo ran").env(variable.0, variable.1).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    };
    let nothing = ("UNUSED", OsStr::new(""));
    refused("--report /nowhere/report.json", nothing, 74);
    refused("--duration 1", nothing, 2);
    refused("", ("OTEL_EXPORTER_OTLP_ENDPOINT", OsStr::new("ftp://x")), 78);
}
