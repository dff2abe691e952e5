//! Situations: each generated log is accepted whole, shows what its description states, and no
//! recommendation promises more than it may.
//!
//! The recommendations of the default policies are compared with what an expert would give: none is wrong,
//! and most of those expected are given. `make bench` prints the same table.

use std::path::Path;

use phasemeter_situations::{
    Audit, Matrix, Observed, PHASES, Report, Situation, Situations, compare,
};
use serde_json::Value;

use crate::consistency;
use crate::metric_logs::amd::NVIDIA;
use crate::promises;
use crate::report::{self, list};

/// Values of a range average to its center: difference in percentage points.
const MEAN_TOLERANCE: f64 = 2.0;

/// The page of a report, with two lines that state what decides trials.
const MAX_LINES: usize = 63;

#[test]
fn situations_are_metered_as_described() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_phasemeter"));
    let audit = Audit { program, dir: dir.path(), model: None };
    let situations = Situations::load().unwrap_or_else(|error| panic!("{error}"));
    let mut matrix = Matrix::default();
    let mut too_long = Vec::new();
    for situation in &situations.all {
        let id = situation.id();
        let (report, text) = audit.report(situation).unwrap_or_else(|error| panic!("{error}"));
        if text.lines().count() > MAX_LINES {
            too_long.push(format!("{id}:\n{text}"));
        }
        report::check(&report);
        consistency::check_text(&text, &id);
        assert_eq!(report["rejected_total"], 0, "{id}: {}", report["rejected_rows"]);
        for policy in list(&report["policies"]) {
            assert_eq!(policy["error"], Value::Null, "{id}: {policy:#}");
        }
        check_observed(situation, &report);
        promises::check(&report, &id);
        matrix.add(compare(situation, &situations, &Report::parse(&report).unwrap()));
    }
    println!("{matrix}");
    assert!(too_long.is_empty(), "over {MAX_LINES} lines: {}", too_long.join("\n"));
    assert_eq!(matrix.broken_bounds(), Vec::<String>::new());
}

/// Scenario: the GPUs of a third of the situations are AMD's.
/// Guarantee: neither recommendations, nor what is missing, nor the text name a tool, a technology or a source of NVIDIA.
#[test]
fn advice_on_gpus_of_amd_names_nothing_of_nvidia() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_phasemeter"));
    let situations = Situations::load().unwrap_or_else(|error| panic!("{error}"));
    let models = ["AMD Instinct MI210", "AMD Instinct MI300X OAM", "AMD Radeon PRO W7900"];
    let mut advice = 0;
    for (situation, model) in situations.all.iter().step_by(3).zip(models.into_iter().cycle()) {
        let audit = Audit { program, dir: dir.path(), model: Some(model) };
        let (report, text) = audit.report(situation).unwrap_or_else(|error| panic!("{error}"));
        let given = ["recommendations", "needs", "uncovered_waste"].map(|part| &report[part]);
        advice += given.iter().map(|part| list(part).len()).sum::<usize>();
        for text in given.map(Value::to_string).into_iter().chain([text]) {
            // These logs are of nvidia-smi, and so are the names of their sources.
            let mut words = NVIDIA.iter().filter(|word| **word != "nvml.");
            let found = words.find(|word| text.contains(**word));
            assert!(found.is_none(), "{}, {model}: {found:?} in {text}", situation.id());
        }
    }
    assert!(advice > 50, "{advice}");
}

fn check_observed(situation: &Situation, report: &Value) {
    let (id, described) = (situation.id(), situation.observed());
    let gpus = list(&report["gpus"]);
    assert_eq!(gpus.len(), described.len(), "{id}");
    for (position, of) in described.iter().enumerate() {
        let named = gpus.iter().find(|gpu| gpu["id"] == of.uuid.as_str());
        check_gpu(&id, of, named.unwrap_or(&gpus[position]));
    }
}

fn check_gpu(id: &str, of: &Observed, gpu: &Value) {
    let number = |value: &Value| value.as_f64().unwrap();
    let observed = number(&gpu["span_seconds"]) - number(&gpu["unobserved_seconds"]);
    assert!((observed - of.seconds).abs() < 1.0, "{id}: {observed} s, not {} s", of.seconds);
    let mean = gpu["utilization"]["mean"].as_f64();
    match (mean, of.mean) {
        (Some(mean), Some(wanted)) => {
            assert!((mean - wanted).abs() <= MEAN_TOLERANCE, "{id}: {mean}%, not {wanted}%");
        }
        _ => assert_eq!(mean, of.mean, "{id}"),
    }
    // A second at the change of two stages may be in the phase of either.
    let tolerance = 0.01 * of.seconds + 1.0;
    for ((phase, _), (min, max)) in PHASES.iter().zip(of.phases) {
        let seconds = number(&gpu["phases"][phase]["seconds"]);
        assert!(
            (min - tolerance..=max + tolerance).contains(&seconds),
            "{id}: {phase} for {seconds} s, not {min} to {max} s"
        );
    }
}
