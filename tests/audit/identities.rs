//! Which GPU a point of a metric is about, and its model, as labels name them.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::report::{self, list};

/// A whole minute, in milliseconds.
const START: u64 = 1_785_110_400_000;

/// Ten minutes of samples, each 15 s: what `page` writes at each instant, with its number.
fn log(page: impl Fn(u64) -> String) -> String {
    let mut log = String::new();
    for tick in 0..=40 {
        for sample in page(tick).lines() {
            writeln!(log, "{sample} {}", START + tick * 15_000).unwrap();
        }
    }
    log
}

fn audit(log: &str, args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.prom");
    fs::write(&path, log).unwrap();
    let report = Phasemeter::audit().args(args).arg(&path).report();
    report::check(&report);
    report
}

/// Scenario: nvidia_gpu_exporter has the model in a metric of its own, before or after the others; labels of
/// dcgm-exporter and of Google's receivers have it in the form of Kubernetes.
/// Guarantee: it is that model, with its price and its memory.
#[test]
fn model_is_read_from_labels_of_any_form() {
    const H100: &str = "NVIDIA H100 80GB HBM3";
    let price = ["--provider", "aws", "--instance-type", "p5.48xlarge"];
    let uuid = "5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60";
    let info = |tick: u64, at: u64| {
        let labels = format!("driver_version=\"550.54\",name=\"{H100}\",uuid=\"{uuid}\"");
        if tick == at { format!("nvidia_smi_gpu_info{{{labels}}} 1\n") } else { String::new() }
    };
    let smi = |at| {
        log(|tick| {
            let value = format!("nvidia_smi_utilization_gpu_ratio{{uuid=\"{uuid}\"}} 0.5\n");
            format!("{value}{}", info(tick, at))
        })
    };
    let labeled = |metric: &str, label: &str, model: &str, value: &str| {
        log(|_| {
            format!(
                "{metric}{{uuid=\"GPU-{uuid}\",UUID=\"GPU-{uuid}\",{label}=\"{model}\"}} {value}\n"
            )
        })
    };
    let dashed = H100.replace(' ', "-");
    for log in [
        smi(0),
        smi(7),
        labeled("DCGM_FI_DEV_GPU_UTIL", "modelName", &dashed, "50"),
        labeled("DCGM_FI_DEV_GPU_UTIL", "modelName", &format!("{dashed}-SHARED"), "50"),
        labeled("nvml.gpu.utilization", "model", &dashed.to_lowercase(), "0.5"),
    ] {
        let log = log.replace("nvml.gpu.utilization{", "{__name__=\"nvml.gpu.utilization\",");
        let report = audit(&log, &price);
        let gpu = &list(&report["gpus"])[0];
        assert_eq!((list(&report["gpus"]).len(), &gpu["model"]), (1, &H100.into()), "{log:.200}");
        assert!(gpu["cost_usd"].is_string(), "{gpu:#}");
        assert_eq!(report["gpus"][0]["effective_seconds"], 300.0, "{log:.200}");
    }
    let given = audit(
        &log(|_| "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 5\n".to_owned()),
        &["--gpu-model", &dashed, "--provider", "aws"],
    );
    assert!(given["gpus"][0]["cost_usd"].is_string(), "{given:#}");
}
