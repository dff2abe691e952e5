//! Trials of generated runs: placebos are refuted at the level of the comparison, and records state what was measured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

mod reports;

use phasemeter_bill::compare::Options;
use phasemeter_bill::read::{Sha256, read_whole};
use phasemeter_bill::report::Report;
use phasemeter_bill::trial::{Record, Source, TrialError};
use phasemeter_savings::trial::Outcome;
use reports::{gpu, hour, report, working};
use serde_json::{Value, json as value};

const SCHEMA: &str = include_str!("../src/trial/trial.schema.json");

/// Two days of two GPUs at $2 an hour, of which the first has a trial. Work per hour varies by about 10%.
fn run(seed: u64, throughput: f64) -> Value {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..20).for_each(|_| _ = uniform());
    let counts: Vec<u64> = (0..48)
        .map(|_| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            (100_000.0 * throughput * (1.0 + 0.1 * normal)).round() as u64
        })
        .collect();
    let hours: Vec<_> = (0..48).map(|_| working(0.5)).collect();
    let gpus = vec![gpu("a", 0, &hours), gpu("b", 0, &hours)];
    let mut report = report(&[("phasemeter.workload", "training")], gpus);
    report["work"] = value!({ "samples": { "count": counts.iter().sum::<u64>() } });
    let by_hour = counts.iter().enumerate();
    let by_hour = by_hour
        .map(|(at, count)| value!({ "start": hour(at as u64), "work": { "samples": count } }));
    report["work_by_hour"] = by_hour.collect();
    report["recommendations"] = value!([trial("workers", false), trial("gpu", true)]);
    report
}

fn trial(code: &str, on_other_gpu: bool) -> Value {
    value!({
        "policy": "test",
        "code": code,
        "title": "Change something",
        "saving_fraction": { "low": 0.0, "expected": 0.2, "high": 0.3 },
        "gpus": ["a"],
        "trial": { "on_other_gpu": on_other_gpu },
    })
}

fn parsed(json: &Value) -> (Report, Sha256) {
    read_whole("a.json", json.to_string().as_bytes()).unwrap()
}

fn settle(before: &Value, after: &Value, code: Option<&str>) -> Result<Record, TrialError> {
    let [before, after] = [before, after].map(parsed);
    let record = Record::settle(
        source("b.json", &before),
        source("a.json", &after),
        code,
        &Options::default(),
    );
    let (record, _) = record?;
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let json = record.to_json();
    assert!(schema.is_valid(&serde_json::from_slice(&json).unwrap()), "{record:?}");
    let read = Record::parse("r", &json)?;
    read.verify("r", source("b.json", &before), source("a.json", &after))?;
    Ok(record)
}

fn source<'a>(file: &'a str, (report, digest): &'a (Report, Sha256)) -> Source<'a> {
    Source { file, report, digest }
}

/// Guarantee: of placebos, at least 95 of 100 show no difference, and none counts.
#[test]
fn placebos_show_no_difference() {
    let placebo =
        |pair: u64| settle(&run(2 * pair + 1, 1.0), &run(2 * pair + 2, 1.0), Some("workers"));
    let all: Vec<_> = (0..200).map(|pair| placebo(pair).unwrap()).collect();
    let same = all.iter().filter(|record| record.result == Outcome::NoDifference);
    let same =
        same.inspect(|record| assert_eq!(record.settled("r").unwrap().saving, Default::default()));
    let same = same.count();
    println!("{same} of 200 placebos show no difference");
    assert!(same >= 190, "{same}");
}

/// Guarantee: what is saved of the bill of all GPUs is that much more of the bill of those that it was recommended for.
#[test]
fn saving_is_of_the_gpus_that_it_was_recommended_for() {
    let record = settle(&run(1, 1.0), &run(2, 1.25), Some("workers")).unwrap();
    assert_eq!(
        (record.result, &record.recommendation.gpus[..]),
        (Outcome::Saves, &["a".to_owned()][..])
    );
    let (unit, saving) = (record.unit_cost.unwrap(), record.saving_fraction);
    assert!((-0.25..-0.15).contains(&unit.expected), "{unit:?}");
    assert!((saving.expected + 2.0 * unit.expected).abs() < 1e-9, "a is half of the bill");
    assert!(saving.low < saving.expected && saving.expected < saving.high, "{saving:?}");
    // 192 GPU-hours at $2 would have been 1.25 times as many.
    let realized = record.realized().expected.0 as f64 / 1e9;
    assert!((192.0 * (1.0 / (1.0 + unit.expected) - 1.0) - realized).abs() < 1e-6, "{realized}");
    assert_eq!(
        settle(&run(1, 1.25), &run(2, 1.0), Some("workers")).unwrap().result,
        Outcome::Worse
    );
}

#[test]
fn what_decides_nothing_is_not_comparable() {
    let before = run(1, 1.0);
    let mut short = run(2, 1.25);
    short["work_by_hour"] = value!([]);
    let record = settle(&before, &short, Some("workers")).unwrap();
    assert_eq!(record.result, Outcome::NotComparable);
    assert!(record.reasons[0].contains("16 hours") && record.settled("r").is_none(), "{record:?}");
    let mut other = run(2, 1.25);
    other["gpus"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|gpu| gpu["model"] = value!("NVIDIA L4"));
    let record = settle(&before, &other, Some("workers")).unwrap();
    assert!(record.reasons[0].contains("the GPU models differ"), "{record:?}");
    let moved = settle(&before, &other, Some("gpu")).unwrap();
    assert_eq!(moved.result, Outcome::Saves, "dollars per unit decide a move to another model");
    let several = settle(&before, &run(2, 1.0), None).unwrap_err().to_string();
    assert_eq!(several, "b.json: has several trials; set --recommendation to one of gpu, workers");
}
