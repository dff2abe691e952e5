//! GPU models that a log has late, or that contradict the command line.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::otlp;
use crate::phasemeter::{Outcome, Phasemeter};
use crate::report::{self, list, nanos};
use crate::trace::check_sums;

const H100: &str = "NVIDIA H100 80GB HBM3";
const H100_AT_AWS: [&str; 4] = ["--provider", "aws", "--instance-type", "p5.48xlarge"];

/// Rows of two GPUs every second, with these cells between timestamp and utilization.
fn rows(seconds: std::ops::Range<u64>, cells: impl Fn(u64) -> String) -> String {
    let mut rows = String::new();
    for second in seconds {
        let (minute, percent) = (second / 60, second * 37 % 101);
        for gpu in 0..2 {
            let cells = cells(gpu);
            writeln!(rows, "2026/07/27 00:{minute:02}:{:02}.000, {cells}, {percent}", second % 60)
                .unwrap();
        }
    }
    rows
}

fn without_model(seconds: std::ops::Range<u64>) -> String {
    let rows = rows(seconds, |gpu| format!("GPU-{gpu}"));
    format!("timestamp, uuid, utilization.gpu [%]\n{rows}")
}

fn with_model(seconds: std::ops::Range<u64>) -> String {
    let rows = rows(seconds, |gpu| format!("GPU-{gpu}, {H100}"));
    format!("timestamp, uuid, name, utilization.gpu [%]\n{rows}")
}

fn audit(files: &[(&str, &str)], args: &[&str]) -> (Outcome, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(dir.path().join(name), text).unwrap());
    let run = Phasemeter::audit().within(dir.path()).args(files.iter().map(|(name, _)| name));
    (run.args(args).arg("--no-default-policies").run(), dir)
}

fn report_of(files: &[(&str, &str)], args: &[&str]) -> Value {
    let (outcome, _dir) = audit(files, args);
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    let report = outcome.json();
    report::check(&report);
    report
}

/// The cost of a GPU without the accounts in which it is.
fn bills(report: &Value) -> Vec<Value> {
    let sums = ["cost_usd", "utilized_usd", "rate_usd_per_gpu_hour", "price", "model"];
    list(&report["gpus"]).iter().map(|gpu| sums.map(|name| gpu[name].clone()).into()).collect()
}

/// Scenario: the model is only in a second log, or only under a second header after more rows than are
/// searched under the first one.
/// Guarantee: the GPUs cost what they cost with the model in every row, from their first reading on.
#[test]
fn late_model_prices_gpus_from_their_start() {
    let known = report_of(&[("log.csv", &with_model(0..1_800))], &["--provider", "aws"]);
    assert!(known["cost"]["total_usd"].is_string(), "{known:#}");
    let (first, second) = (without_model(0..1_200), with_model(1_200..1_800));
    let together = format!("{first}{second}");
    let logs: [&[(&str, &str)]; 2] =
        [&[("a.csv", &first), ("b.csv", &second)], &[("log.csv", &together)]];
    for files in logs {
        let late = report_of(files, &["--provider", "aws"]);
        assert_eq!(bills(&late), bills(&known));
        assert_eq!(late["cost"], known["cost"]);
        assert_eq!(late["cost"]["unpriced_reason"], Value::Null);
    }
}

/// Scenario: the model is in a second log, and telemetry is exported every minute.
/// Guarantee: points have the model from then on; the sums and the spans of GPUs sum to the bill.
#[test]
fn late_model_is_exported_with_its_cost() {
    let (first, second) = (without_model(0..1_200), with_model(1_200..1_800));
    let files = [("a.csv", first.as_str()), ("b.csv", &second)];
    let (outcome, dir) = audit(&files, &["--provider", "aws", "--otlp-file", "otlp.jsonl"]);
    let report = outcome.json();
    let sent = otlp::read(&fs::read_to_string(dir.path().join("otlp.jsonl")).unwrap());
    check_sums(&report, &sent);
    let start = 1_785_110_400_000_000_000;
    for (labels, stream) in sent.streams("hw.gpu.utilization") {
        let model = labels.get("hw.model").map(String::as_str);
        assert!(model.is_none_or(|model| model == H100));
        for point in &stream.points {
            let minute = (point.time - start) / 60_000_000_000;
            assert_eq!(model.is_some(), minute > 19, "minute {minute}");
        }
    }
    let sessions: Vec<_> = sent.spans.iter().filter(|span| span.name == "gpu session").collect();
    assert_eq!(sessions.len(), 2);
    let cost: f64 = sessions
        .iter()
        .flat_map(|span| otlp::attributes(&span.attributes))
        .filter(|(name, _)| name.starts_with("phasemeter.cost."))
        .map(|(_, value)| value.parse::<f64>().unwrap())
        .sum();
    let bill = nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    assert!((cost - bill).abs() < 1e-8, "{cost} ≠ {bill}");
}

/// Guarantee: the log's model counts unless the override is given by name, and the report notes each
/// contradiction.
#[test]
fn contradicting_gpu_model_is_reported() {
    let log = with_model(0..60);
    let price = |args: &[&str]| {
        let report = report_of(&[("log.csv", &log)], &[args, &["--provider", "aws"]].concat());
        let gpu = &report["gpus"][0];
        let (model, rate) = (gpu["model"].clone(), gpu["rate_usd_per_gpu_hour"].clone());
        (model, rate, report["assumptions"].to_string())
    };
    let (_, h100, notes) = price(&["--gpu-model", "h100 80gb hbm3"]);
    assert!(!notes.contains("gpu-model"), "{notes}");

    let (model, rate, notes) = price(&["--gpu-model", "NVIDIA A10G"]);
    assert_eq!((model, &rate), (H100.into(), &h100));
    let note = "2 GPUs are NVIDIA H100 80GB HBM3 by the log, so --gpu-model NVIDIA A10G does not \
                apply to them; --gpu-model-override does";
    assert!(notes.contains(note), "{notes}");

    let (model, rate, notes) = price(&["--gpu-model-override", "NVIDIA A10G"]);
    assert_eq!((model, rate), ("NVIDIA A10G".into(), "1.624000000".into()));
    let note = "2 GPUs are NVIDIA H100 80GB HBM3 by the log, not NVIDIA A10G as given";
    assert!(notes.contains(note), "{notes}");
}

/// Guarantee: an instance type with other GPUs does not price those of the log, and the report notes
/// it. A model that is in no table may be another spelling: the price is used, and noted.
#[test]
fn contradicting_instance_type_is_reported() {
    let log = with_model(0..60);
    let by_model = report_of(&[("log.csv", &log)], &["--provider", "aws"]);
    let args = ["--provider", "aws", "--instance-type", "g4dn.xlarge"];
    let report = report_of(&[("log.csv", &log)], &args);
    assert_eq!(report["cost"], by_model["cost"]);
    let notes = report["assumptions"].to_string();
    let note = format!("instance type g4dn.xlarge has Tesla T4, so it is not used to price {H100}");
    assert!(notes.contains(&note), "{notes}");

    let agreeing = report_of(&[("log.csv", &log)], &H100_AT_AWS);
    assert!(!agreeing["assumptions"].to_string().contains("instance type"), "{agreeing:#}");

    let other = log.replace(H100, "NVIDIA H100 SXM");
    let report = report_of(&[("log.csv", &other)], &H100_AT_AWS);
    assert_eq!(report["cost"], agreeing["cost"]);
    let notes = report["assumptions"].to_string();
    let note = "NVIDIA H100 SXM is not in the price book; it is priced as NVIDIA H100 80GB HBM3 of \
                p5.48xlarge";
    assert!(notes.contains(note), "{notes}");
}
