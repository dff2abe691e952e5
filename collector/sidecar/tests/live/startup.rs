//! `phasemeter run` with a driver or GPUs that hang when it starts.
//!
//! Faults last for seconds longer than the command waits for, or until the end of the script.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use fake_nvml::LOAD_VARIABLE;
use phasemeter_process::send;
use rustix::process::Signal;
use serde_json::Value;

use crate::files::reports_in;
use crate::run::{
    assert_billed, assert_observed, assumptions, phasemeter, run_with_report, seconds, started_at,
    stderr, with_command,
};
use crate::{Rig, TIMEOUT};

/// The functions of NVML that initialize it and count GPUs.
const INITIALIZATION: &str = "[\"nvmlInit_v2\", \"nvmlDeviceGetCount_v2\"]";

/// A driver with two GPUs, and a fault for them. The script is longer than any test.
fn two(fault: &str) -> Rig {
    let hour = "length_ms = 3600000";
    Rig::new(&format!("{hour}\n[[device]]\n[[device]]\n[[fault]]\nhang = true\n{fault}"))
}

/// Runs a command that hangs for good if it is not started, and returns its report.
fn run_command(rig: &Rig) -> (String, Value) {
    let began = Instant::now();
    let (output, report) = run_with_report(rig, "", |command| {
        command.args(["--", "sh", "-c", "sleep 0.5; exit 7"]);
    });
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{log}");
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    (log, report)
}

#[test]
fn command_starts_while_gpu_hangs() {
    let (log, report) = run_command(&two("device = 1"));
    assert!(log.contains("GPU 1 does not respond; unobserved until it does"), "{log}");
    let gpus = report["gpus"].as_array().unwrap();
    let [working, hung] = &gpus[..] else { panic!("{gpus:#?}") };
    assert_eq!((&working["index"], &hung["index"]), (&Value::from(0), &Value::from(1)));
    assert_eq!(hung["unobserved_seconds"], hung["span_seconds"]);
    assert!(seconds(&hung["span_seconds"]) >= seconds(&working["span_seconds"]), "{report:#}");
    assert_billed(hung);
    let notes = assumptions(&report);
    assert!(notes.contains("GPU 1 did not respond; it is unobserved"), "{notes}");
}

#[test]
fn command_starts_while_driver_hangs() {
    for function in ["nvmlInit_v2", "nvmlDeviceGetCount_v2"] {
        let (log, report) = run_command(&two(&format!("functions = [\"{function}\"]")));
        assert!(log.contains("the NVIDIA driver does not respond"), "{log}");
        assert_eq!(report["gpus"], Value::Array(Vec::new()));
        let notes = assumptions(&report);
        assert!(notes.contains("the NVIDIA driver did not respond"), "{notes}");
    }
}

/// Scenario: the driver's library hangs while it is being loaded, with a lock that every new thread takes.
/// Guarantee: the command starts, keeps its status, and nothing of the run is left behind.
#[test]
fn command_starts_while_library_hangs_in_loading() {
    let rig = two("device = 1");
    let (output, report) = run_with_report(&rig, "", |command| {
        command.env(LOAD_VARIABLE, "/nowhere").args(["--", "sh", "-c", "sleep 0.5; exit 7"]);
    });
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{log}");
    assert!(log.contains("the NVIDIA driver does not respond"), "{log}");
    let notes = assumptions(&report);
    assert!(notes.contains("the NVIDIA driver did not respond"), "{notes}");
}

/// Guarantee: GPUs are observed from when the library has been loaded, and billed from the start.
#[test]
fn library_that_loads_late_is_used() {
    let rig = Rig::new("length_ms = 3600000\n[[device]]\n[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let (loads, report) = (dir.path().join("loads"), dir.path().join("report.json"));
    let arguments = format!("--report {} --report-every 1s", report.display());
    let mut command = phasemeter(&rig, &arguments);
    command.env(LOAD_VARIABLE, &loads);
    let (mut run, log) = started_at("does not respond", &mut command);
    thread::sleep(Duration::from_secs(3));
    fs::write(&loads, "").unwrap();
    log.wait_for("metering all 2 GPUs");
    wait_until_observed(dir.path());
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    let rest = log.rest();
    assert_eq!(run.0.wait().unwrap().code(), Some(0), "{rest}");
    let reports = reports_in(dir.path());
    let [(_, report)] = &reports[..] else { panic!("{reports:?}") };
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{report:#}");
    for gpu in gpus {
        assert_billed(gpu);
        let (unobserved, span) =
            (seconds(&gpu["unobserved_seconds"]), seconds(&gpu["span_seconds"]));
        assert!(unobserved > 1.0 && unobserved < span, "{gpu:#}");
    }
}

/// Waits for a report that says of each of its GPUs that it was observed.
fn wait_until_observed(dir: &Path) {
    let is_observed = |gpu: &Value| gpu["unobserved_seconds"] != gpu["span_seconds"];
    let all_are_observed = |(_, report): &(String, Value)| {
        let gpus = report["gpus"].as_array().unwrap();
        !gpus.is_empty() && gpus.iter().all(is_observed)
    };
    let began = Instant::now();
    while !reports_in(dir).iter().any(all_are_observed) {
        assert!(began.elapsed() < TIMEOUT, "{:?}", reports_in(dir));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Scenario: the library ends the process that loads it.
/// Guarantee: the command runs, and one line states why no GPU is metered.
#[test]
fn library_that_ends_its_process_ends_no_run() {
    let rig = two("device = 1");
    let (output, report) = run_with_report(&rig, "", |command| {
        command.env(LOAD_VARIABLE, "abort").args(["--", "sh", "-c", "exit 7"]);
    });
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{log}");
    assert_eq!(log.matches("ends the process that loads it").count(), 1, "{log}");
    assert_eq!(report["gpus"], Value::Array(Vec::new()));
}

/// Scenario: neither the driver nor the policies, which are compiled, are ready in time.
/// Guarantee: their waits overlap. That for policies ends first, while the driver still has time.
#[test]
fn command_waits_for_driver_and_policies_at_once() {
    let rig = two("");
    let cache = tempfile::tempdir().unwrap();
    let mut command = with_command(&rig, "--policy-limit start_ms=1", "exit 7");
    let output = command.env("XDG_CACHE_HOME", cache.path()).output().unwrap();
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{log}");
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("no '{text}' in {log}"));
    assert!(at("policies are still loading") < at("driver does not respond"), "{log}");
}

/// The GPU that reports an XID is metered by then.
#[test]
fn gpus_that_respond_late_are_unobserved_before() {
    for (fault, late, line) in [
        ("device = 1", &[1][..], "GPU 1 responds"),
        (&format!("functions = {INITIALIZATION}"), &[0, 1], "metering all 2 GPUs"),
    ] {
        let rig = two(&format!("{fault}\nfor_ms = 4000\n[[fault]]\nat_ms = 6000\nxid = 79"));
        let dir = tempfile::tempdir().unwrap();
        let report = dir.path().join("report.json");
        let arguments = format!("--report {}", report.display());
        let (mut run, log) = started_at("does not respond", &mut phasemeter(&rig, &arguments));
        log.wait_for(line);
        log.wait_for("GPU 1: driver reported XID 79");
        send(run.0.id(), Signal::TERM.as_raw()).unwrap();
        let rest = log.rest();
        assert_eq!(run.0.wait().unwrap().code(), Some(0), "{rest}");
        let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let gpus = report["gpus"].as_array().unwrap();
        assert_eq!(gpus.len(), 2, "{report:#}");
        for (index, gpu) in gpus.iter().enumerate() {
            assert_billed(gpu);
            let unobserved = seconds(&gpu["unobserved_seconds"]);
            if late.contains(&index) {
                assert!(unobserved > 1.0, "{gpu:#}");
                assert!(unobserved < seconds(&gpu["span_seconds"]), "{gpu:#}");
                assert_eq!(gpu["unobserved_reasons"][0]["reason"], "no_reading");
            } else {
                assert_observed(gpu);
            }
        }
    }
}
