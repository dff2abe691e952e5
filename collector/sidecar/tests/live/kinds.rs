//! The kind of the work of a GPU: by the processes that the driver lists on it, else by the command.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Rig;
use crate::run::{phasemeter, stderr};

/// The processes on GPUs: of a server, of a training, of both, of no known kind, and one that has ended.
const PROCESSES: [&str; 5] = [
    "{ pid = 4102 }",
    "{ pid = 5001 }",
    "{ pid = 4102 }, { pid = 5001 }",
    "{ pid = 6000 }",
    "{ pid = 9999 }",
];

/// A GPU at work for each of these.
fn script(processes: &[&str]) -> String {
    let device = |processes: &&str| {
        format!(
            "[[device]]\n[[device.phase]]\nfor_ms = 60000\nutilization = 90\nprocesses = [{processes}]\n"
        )
    };
    processes.iter().map(device).collect()
}

/// A `/proc` as the kernel writes it.
fn procfs() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../process/tests/proc").display().to_string()
}

/// The kinds of the GPUs in the last window of a run, and all that it wrote.
fn kinds(
    script: &str,
    arguments: &str,
    change: impl FnOnce(&mut Command),
) -> (Vec<String>, String) {
    let rig = Rig::new(script);
    let dir = tempfile::tempdir().unwrap();
    let files = ["window", "report", "otlp"].map(|name| dir.path().join(name));
    let [window, report, otlp] = files.each_ref().map(|path| path.display());
    let options =
        format!("--dump-windows {window} --report {report} --otlp-file {otlp} {arguments}");
    let mut command = phasemeter(&rig, &options);
    change(&mut command);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let written = files.each_ref().map(|path| fs::read_to_string(path).unwrap());
    let window: Value = serde_json::from_str(&written[0]).unwrap();
    let gpus = window["window"]["gpus"].as_array().unwrap();
    let kind = |gpu: &Value| gpu["workload"].as_str().unwrap_or("unknown").to_owned();
    (gpus.iter().map(kind).collect(), written.concat() + &stderr(&output))
}

/// Guarantee: the programs on a GPU tell its kind if all agree; what is declared precedes them; and nothing
/// of a command line is written.
#[test]
fn processes_on_gpus_tell_their_kinds() {
    let arguments = format!("--duration 3 --procfs {}", procfs());
    let (seen, written) = kinds(&script(&PROCESSES), &arguments, |_| {});
    assert_eq!(seen, ["serving", "training", "unknown", "unknown", "unknown"]);
    for part in ["vllm", "EngineCore", "torchrun", "train.py", "main.py"] {
        assert!(!written.contains(part), "{part} in {written}");
    }
    let declare = |command: &mut Command| {
        command.env("OTEL_RESOURCE_ATTRIBUTES", "phasemeter.workload=batch");
    };
    assert_eq!(kinds(&script(&PROCESSES), &arguments, declare).0, ["batch"; 5]);
}

/// Scenario: a container, which has neither the processes of the host nor their `/proc`.
/// Guarantee: the command tells the kind, and without one it is unknown.
#[test]
fn command_tells_the_kind_of_gpus_without_known_processes() {
    let dir = tempfile::tempdir().unwrap();
    let server = dir.path().join("tritonserver");
    fs::write(&server, "#!/bin/sh\nsleep 2\n").unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script(&[""]);
    let nowhere = "--procfs /nowhere";
    let run = |command: &mut Command| {
        command.arg("--").arg(&server);
    };
    assert_eq!(kinds(&script, nowhere, run).0, ["serving"]);
    assert_eq!(kinds(&script, &format!("{nowhere} --duration 2"), |_| {}).0, ["unknown"]);
}
