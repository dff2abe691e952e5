//! What a driver measures of a GPU at work reaches windows, live and through a recording.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Rig;
use crate::run::{phasemeter, stderr};

/// A GPU at work, limited by its power, with an error.
const SCRIPT: &str = "length_ms = 60000
    [[device]]
    nvlinks = 2
    [[device.phase]]
    for_ms = 60000
    utilization = 100
    sm = 60
    tensor = 30
    dram = 50
    fp64 = 35
    pcie_tx_mib_s = 1000
    pcie_rx_mib_s = 3000
    nvlink_tx_mib_s = 500
    nvlink_rx_mib_s = 1500
    encoder = 20
    decoder = 10
    pcie_generation = 4
    pcie_lanes = 8
    power_w = 600
    temperature_c = 64
    sm_clock_mhz = 1410
    memory_used_mib = 60000
    fans_percent = [40, 55]
    throttle = [\"sw_power_cap\"]
    ecc_uncorrected = 2
    [[fault]]
    at_ms = 6000
    device = 0
    xid = 79";

fn sensors_of(window: &Path) -> Value {
    let window: Value = serde_json::from_slice(&fs::read(window).unwrap()).unwrap();
    window["window"]["gpus"][0].clone()
}

fn check(gpu: &Value) {
    let sensors = &gpu["sensors"];
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap_or(f64::NAN);
        assert!((value - expected).abs() <= 0.05 * expected, "{value}, not {expected}: {gpu:#}");
    };
    near(&sensors["sm_activity"], 0.6);
    near(&sensors["tensor_activity"], 0.3);
    near(&sensors["dram_activity"], 0.5);
    near(&gpu["metrics"]["memory.utilization"], 0.5);
    near(&gpu["metrics"]["fp64.activity"], 0.35);
    for (name, expected) in [("temperature_celsius", 64.0), ("sm_clock_mhz", 1_410.0)] {
        near(&sensors[name], expected);
        near(&sensors[format!("max_{name}")], expected);
    }
    near(&sensors["busy_power_watts"]["p50"], 600.0);
    near(&sensors["memory_in_use_bytes"]["p50"], 60_000.0 * 1_048_576.0);
    near(&gpu["metrics"]["memory.pool"], 60_000.0 / 81_559.0);
    for reason in sensors["throttling"].as_array().unwrap() {
        let expected = if reason["reason"] == "power_cap" { 1.0 } else { 0.0 };
        near(&reason["share"], expected);
    }
    assert_eq!(sensors["throttling"].as_array().unwrap().len(), 5, "{sensors:#}");
    for name in ["memory.clock", "memory.max_clock"] {
        near(&gpu["metrics"][name], 2_619.0);
    }
    assert_eq!(gpu["attributes"]["phasemeter.gpu.mig.mode"], "disabled");
    near(&gpu["metrics"]["fan.speed"], 0.55);
    assert_eq!(gpu["metrics"]["pcie.link.generation"], 4.0);
    assert_eq!(gpu["metrics"]["pcie.link.width"], 8.0);
    assert_eq!(gpu["metrics"]["pcie.link.max_width"], 16.0);
    near(&gpu["metrics"]["encoder.utilization"], 0.2);
    near(&gpu["metrics"]["decoder.utilization"], 0.1);
    assert_eq!(gpu["metrics"]["memory.errors"], 2.0);
    assert_eq!(sensors["xids"], serde_json::json!({"79": 1}));
    for (link, expected) in [("pcie", 4_000.0), ("nvlink", 2_000.0)] {
        let traffic = &gpu["metrics"][format!("{link}.bytes_per_second")];
        let traffic = traffic.as_f64().unwrap_or(f64::NAN) / 1_048_576.0;
        let range = 0.9 * expected..1.1 * expected;
        assert!(range.contains(&traffic), "{link}: {traffic} MiB/s, not {expected}");
    }
}

/// Guarantee: activity, power, reasons for reduced clocks, traffic and errors of a live run are those of
/// the driver.
#[test]
fn window_has_what_the_driver_measured() {
    let rig = Rig::new(SCRIPT);
    let dir = tempfile::tempdir().unwrap();
    let window = dir.path().join("window.json");
    let arguments = format!("--duration 12 --dump-windows {}", window.display());
    let output = phasemeter(&rig, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let gpu = sensors_of(&window);
    check(&gpu);
    assert!(gpu["attributes"]["host.name"].is_string(), "{gpu:#}");
}

/// Guarantee: a recording has the columns, so that its audit evaluates the same.
#[test]
fn window_of_recording_has_what_the_driver_measured() {
    let rig = Rig::new(SCRIPT);
    let dir = tempfile::tempdir().unwrap();
    let [log, window] = ["log.csv", "window.json"].map(|name| dir.path().join(name));
    let run = |command: &str, file: &Path, arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        program.arg(command).arg(file).args(arguments).envs(rig.fake.environment());
        let output = program.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    run("record", &log, &["--duration", "12"]);
    run("audit", &log, &["--dump-windows", window.to_str().unwrap()]);
    check(&sensors_of(&window));
}
