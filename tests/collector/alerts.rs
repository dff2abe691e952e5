//! The rules for Prometheus in a real one: it loads all of them, and they hold on exported metrics as
//! they do in the report. `promtool` checks them, and runs their unit tests.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::prometheus::{Prometheus, ROOT};

/// 2026-07-27T00:00:00Z.
const MIDNIGHT: u64 = 1_785_110_400;

/// Two hours of two GPUs, from five seconds after midnight, a reading every 10 seconds: one at 20%, one at 97% with 90% of its memory.
fn log() -> String {
    let mut log = "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], \
                   memory.total [MiB], temperature.gpu\n"
        .to_owned();
    for tick in 0..=720 {
        let (hour, minute, second) = (tick / 360, tick / 6 % 60, tick % 6 * 10 + 5);
        for (gpu, percent, used, degrees) in [(0, 20, 40_000, 60), (1, 97, 73_728, 84)] {
            writeln!(
                log,
                "2026/07/27 {hour:02}:{minute:02}:{second:02}.000, {gpu}, GPU-{gpu}, NVIDIA L4, \
                 {percent} %, {used} MiB, 81920 MiB, {degrees}"
            )
            .unwrap();
        }
    }
    log
}

#[test]
fn rules_hold_on_exported_metrics_as_in_the_report() {
    let Some(prometheus) = Prometheus::find() else { return };
    let rules =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/alerts/prometheus-rules.yaml");
    let prometheus = prometheus.start_with(Some(&fs::read_to_string(rules).unwrap()));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log.csv"), log()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().current_dir(dir.path()).stdin(Stdio::null());
    command.args(["audit", "log.csv", "--price=2", "--otlp", "--format=json"]);
    command.args(["--alerts=analytics", "--alerts=optimization", "--alerts=right-sizing"]);
    command.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", prometheus.otlp());
    command.envs([("OTEL_TRACES_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let open: BTreeSet<(String, String)> = report["alerts"]["opened"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|alert| alert["closed"].is_null())
        .map(|alert| {
            let text = |key: &str| alert[key].as_str().unwrap().to_owned();
            (text("rule").replace(['.', '_'], "").to_lowercase(), text("gpu"))
        })
        .collect();

    let mut firing = BTreeSet::new();
    let rules = prometheus.rules();
    assert_eq!(rules.len(), 9, "{rules:?}");
    for (group, name, query) in rules {
        for (labels, _) in prometheus.query(&query, Some(MIDNIGHT + 7_205)) {
            let profile = group.trim_start_matches("phasemeter-");
            firing.insert((format!("{profile}{name}").to_lowercase(), labels["hw_id"].clone()));
        }
    }
    assert_eq!(firing, open);
    assert!(firing.len() >= 6, "{firing:?}");
}

#[test]
fn shipped_configurations_of_prometheus_are_valid() {
    let Some(prometheus) = Prometheus::find() else { return };
    let Some(promtool) = prometheus.promtool() else { return };
    for file in ["otlp.yaml", "scrape.yaml"] {
        let mut command = Command::new(&promtool);
        command.args(["check", "config"]).arg(format!("{ROOT}/otel-config/prometheus/{file}"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn rules_pass_their_unit_tests() {
    let Some(prometheus) = Prometheus::find() else { return };
    let Some(promtool) = prometheus.promtool() else { return };
    for (verb, file) in [
        ("check", "otel-config/alerts/prometheus-rules.yaml"),
        ("check", "otel-config/prometheus/recording-rules.yaml"),
        ("check", "otel-config/prometheus/budget-rules.yaml"),
        ("test", "tests/collector/prometheus/rules.test.yaml"),
        ("test", "tests/collector/prometheus/recording.test.yaml"),
    ] {
        let mut command = Command::new(&promtool);
        let output = command.args([verb, "rules", file]).current_dir(ROOT).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        assert!(output.status.success() && out.contains("SUCCESS"), "{verb} {file}: {out}{err}");
    }
}
