//! Reads the results of a run: the Collector's file and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::fleet::BURST;
use crate::BenchError;

/// Values from both.
pub(super) struct Received {
    /// Metric exports, counted per GPU and summed.
    pub(super) exports: usize,
    /// Number of phase spans.
    pub(super) phase_spans: u64,
    /// Utilization of the burst GPU in percent: as billed, and as polled.
    pub(super) drained: f64,
    pub(super) polled: f64,
    pub(super) lateness: Lateness,
}

/// Tick lateness of the sampler in milliseconds.
pub(super) struct Lateness {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    pub(super) missed: f64,
}

impl Received {
    /// Reads the Collector's file and the report.
    pub(super) fn read(file: &Path, report: &Path) -> Result<Self, BenchError> {
        let missing =
            |path: &Path, expected| BenchError::Output { path: path.to_owned(), expected };
        let text = fs::read_to_string(report).map_err(BenchError::at(report))?;
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let lateness = lateness(&json).ok_or_else(|| missing(report, "the tick lateness"))?;
        let gpu = &json["gpus"][BURST];
        let span = gpu["span_seconds"].as_f64().unwrap_or(f64::NAN);
        let percent = |seconds: &Value| seconds.as_f64().map(|it| it / span * 100.0);
        let drained = percent(&gpu["effective_seconds"]);

        let text = fs::read_to_string(file).map_err(BenchError::at(file))?;
        let (mut exports, mut phase_spans) = (BTreeSet::new(), 0);
        let (mut billed, mut beside, polling) = (0.0, None, Value::from("nvml.gpu"));
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            phase_spans += all(&line, ["resourceSpans", "scopeSpans", "spans"])
                .filter(|span| attributes(span).contains_key("phasemeter.phase"))
                .count() as u64;
            for metric in all(&line, ["resourceMetrics", "scopeMetrics", "metrics"]) {
                let points = metric["sum"]["dataPoints"].as_array().into_iter().flatten();
                if metric["name"] == "phasemeter.gpu.time" {
                    exports.extend(points.map(|point| {
                        let gpu = attributes(point).get("hw.id").map(ToString::to_string);
                        (gpu, point["timeUnixNano"].to_string())
                    }));
                } else if metric["name"] == "phasemeter.gpu.effective_time" {
                    for point in points {
                        let labels = attributes(point);
                        let is = |key: &str, value| labels.get(key) == Some(&value);
                        if is("hw.id", &gpu["id"]) && is("phasemeter.utilization.basis", &polling) {
                            // Samples are billed; what is polled is, too, where none has arrived yet.
                            let value = percent(&point["asDouble"]);
                            match is_billed(point) {
                                true => billed = value.unwrap_or(billed),
                                false => beside = value.or(beside),
                            }
                        }
                    }
                }
            }
        }
        let (Some(drained), Some(beside)) = (drained, beside) else {
            return Err(missing(file, "exports with both bases of utilization"));
        };
        let polled = billed + beside;
        Ok(Self { exports: exports.len(), phase_spans, drained, polled, lateness })
    }
}

/// All elements under a path of nested lists.
fn all<'a>(line: &'a Value, path: [&str; 3]) -> impl Iterator<Item = &'a Value> {
    let list = |value: &'a Value, key: &str| value[key].as_array().into_iter().flatten();
    let [first, second, third] = path.map(str::to_owned);
    list(line, &first).flat_map(move |it| list(it, &second)).flat_map(move |it| list(it, &third))
}

/// Whether a point counts for the bill.
fn is_billed(point: &Value) -> bool {
    let mut pairs = point["attributes"].as_array().into_iter().flatten();
    pairs.any(|pair| {
        pair["key"] == "phasemeter.utilization.billed" && pair["value"]["boolValue"] == true
    })
}

fn attributes(of: &Value) -> BTreeMap<&str, &Value> {
    let pairs = of["attributes"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair["key"].as_str()?, &pair["value"]["stringValue"]))).collect()
}

/// Parses the sentence in the report.
pub(super) fn lateness(report: &Value) -> Option<Lateness> {
    let mut notes = report["sampling"].as_array()?.iter().filter_map(Value::as_str);
    let sentence = notes.find(|note| note.starts_with("tick lateness"))?;
    let after = |words: &str| {
        let (_, rest) = sentence.split_once(words)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some(Lateness {
        p50: after("p50 ")?,
        p99: after("p99 ")?,
        max: after("max ")?,
        missed: after("; ")?,
    })
}
