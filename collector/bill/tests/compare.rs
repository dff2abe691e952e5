//! Comparisons of generated runs: intervals hold at their level, and different work is rejected.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

mod reports;

use phasemeter_bill::compare::{Comparison, Options, json, text};
use phasemeter_bill::report::Report;
use reports::{gpu, hour, parse, report, working};
use serde_json::{Value, json as value};

const SCHEMA: &str = include_str!("../src/compare/compare.schema.json");

/// A pseudorandom generator of its own: xorshift.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, with a standard deviation of one.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Two days of two GPUs at $2 an hour. Work per hour varies by 10%, and depends on the hour before: their
/// correlation is one half.
fn run(seed: u64, throughput: f64) -> Value {
    run_of(seed, throughput, [0.5, 0.0])
}

/// `one` and `two` are the parts of an hour that are those of the hour before and of the one before that.
fn run_of(seed: u64, throughput: f64, [one, two]: [f64; 2]) -> Value {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..10 {
        random.uniform();
    }
    let (mut level, mut before, mut counts, mut hours) = (0.0_f64, 0.0, Vec::new(), Vec::new());
    let own = (1.0 + two) * ((1.0 - two).powi(2) - one.powi(2)) / (1.0 - two);
    for _ in 0..48 {
        (level, before) = (one * level + two * before + 0.1 * own.sqrt() * random.normal(), level);
        counts.push((100_000.0 * throughput * (1.0 + level).max(0.1)).round() as u64);
        hours.push(working((0.6 * (1.0 + level)).clamp(0.2, 0.95)));
    }
    let gpus = vec![gpu("a", 0, &hours), gpu("b", 0, &hours)];
    let mut report = report(&[("phasemeter.workload", "training")], gpus);
    report["work"] = value!({ "samples": { "count": counts.iter().sum::<u64>() } });
    let by_hour = counts.iter().enumerate();
    let by_hour = by_hour
        .map(|(at, count)| value!({ "start": hour(at as u64), "work": { "samples": count } }));
    report["work_by_hour"] = by_hour.collect();
    report
}

fn compare(before: &Value, after: &Value) -> Comparison {
    try_compare(before, after, &Options::default(), &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn try_compare(
    before: &Value,
    after: &Value,
    options: &Options,
    done: &[&str],
) -> Result<Comparison, String> {
    let reports: [Report; 2] = [before, after].map(|json| parse(json).0);
    let done: Vec<_> = done.iter().map(|code| (*code).to_owned()).collect();
    let names = ["a.json", "b.json"];
    let compared = Comparison::of(names, [&reports[0], &reports[1]], options, &done);
    compared.map_err(|error| error.to_string())
}

/// How many of these pairs differ.
fn significant(pairs: u64, throughput: f64, dependence: [f64; 2]) -> usize {
    let differs = |pair: &u64| {
        let before = run_of(2 * pair + 1, 1.0, dependence);
        let pair = compare(&before, &run_of(2 * pair + 2, throughput, dependence));
        pair.unit_cost.is_significant().unwrap()
    };
    let differ = (0..pairs).filter(differs).count();
    println!(
        "throughput {throughput}, dependence {dependence:?}: {differ} of {pairs} pairs differ"
    );
    differ
}

#[test]
fn pairs_of_one_generator_do_not_differ() {
    for dependence in [[0.5, 0.0], [0.0, 0.0]] {
        let differ = significant(1_000, 1.0, dependence);
        assert!(differ <= 50, "{differ} of 1,000 pairs differ");
    }
}

#[test]
fn less_throughput_is_found() {
    let found = significant(100, 0.9, [0.5, 0.0]);
    assert!(found >= 65, "{found} of 100 found");
    let found = significant(100, 0.85, [0.5, 0.0]);
    assert!(found >= 90, "{found} of 100 found");
}

#[test]
fn strong_dependence_widens_the_interval_and_is_noted() {
    for dependence in [[0.8, 0.0], [0.9, 0.0], [0.4, 0.3], [0.5, 0.3]] {
        let differ = significant(1_000, 1.0, dependence);
        assert!(differ <= 50, "{differ} of 1,000 pairs differ");
    }
    let is_noted = |dependence: [f64; 2]| {
        let noted = (0..200).filter(|pair| {
            let runs = [1, 2].map(|run| run_of(2 * pair + run, 1.0, dependence));
            compare(&runs[0], &runs[1]).notes.iter().any(|note| note.contains("resembles"))
        });
        noted.count()
    };
    let (strong, usual) = (is_noted([0.5, 0.3]), is_noted([0.5, 0.0]));
    println!("noted: {strong} of 200, and {usual} of 200");
    assert!(strong >= 100 && usual <= 40, "{strong}, {usual}");
}

/// Two months of a GPU that costs the same at night and on weekends, when it has a tenth of the work. Weeks vary by 0.5%,
/// and resemble the week before as much as given. The run starts on the day of the week with this number.
fn months(seed: u64, throughput: f64, dependence: f64, day: u64) -> Value {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut week, mut counts) = (0.0, Vec::new());
    for at in 0..60 * 24 {
        if at % (7 * 24) == 0 {
            let own = (1.0_f64 - dependence.powi(2)).sqrt();
            week = dependence * week + own * 0.005 * random.normal();
        }
        let (hour, day) = (at % 24, (at / 24 + day) % 7);
        let is_quiet = day >= 5 || !(8..20).contains(&hour);
        let usual = if is_quiet { 0.1 } else { 1.0 } * (1.0 + 0.02 * random.normal());
        counts.push((1_000_000.0 * throughput * usual * (1.0 + week)).round() as u64);
    }
    let hours = vec![working(0.5); counts.len()];
    let mut report = report(&[("phasemeter.workload", "training")], vec![gpu("a", 0, &hours)]);
    report["work"] = value!({ "samples": { "count": counts.iter().sum::<u64>() } });
    let by_hour = counts.iter().enumerate();
    let by_hour = by_hour
        .map(|(at, count)| value!({ "start": hour(at as u64), "work": { "samples": count } }));
    report["work_by_hour"] = by_hour.collect();
    report
}

/// −25% in the cost of a sample; and the days of the rest of the run beyond whole weeks do not count.
#[test]
fn change_over_two_months_is_found_by_weeks() {
    for seed in 1..6 {
        let change = compare(&months(seed, 0.75, 0.0, 0), &months(seed + 100, 1.0, 0.0, 3));
        assert_eq!(change.hours, Some([8, 8]));
        let [low, high] = change.unit_cost.interval.unwrap();
        println!("{:?}", change.unit_cost);
        assert!((change.unit_cost.value + 0.25).abs() < 0.01, "{:?}", change.unit_cost);
        assert!(low < -0.245 && high > -0.255 && high < 0.0, "{:?}", change.unit_cost);
        assert!(change.notes.iter().any(|note| note.starts_with("whole weeks")));
    }
}

#[test]
fn months_of_one_generator_do_not_differ() {
    for dependence in [0.0, 0.5] {
        let differs = |pair: &u64| {
            let runs = [(1, 0), (2, pair % 7)];
            let runs = runs.map(|(run, day)| months(2 * pair + run, 1.0, dependence, day));
            compare(&runs[0], &runs[1]).unit_cost.is_significant().unwrap()
        };
        let differ = (0..60).filter(differs).count();
        println!("weeks depend {dependence}: {differ} of 60 pairs differ");
        assert!(differ <= 3, "{differ} of 60 pairs of months differ");
    }
}

#[test]
fn change_is_that_of_unit_costs() {
    let (before, after) = (run(1, 1.0), run(1, 0.8));
    let change = compare(&before, &after);
    assert!((change.unit_cost.value - 0.25).abs() < 1e-4, "{:?}", change.unit_cost);
    assert_eq!(change.hours, Some([48, 48]));
    // The same reports give the same interval.
    assert_eq!(change.unit_cost, compare(&before, &after).unit_cost);
}

#[test]
fn single_total_has_no_interval() {
    let mut after = run(2, 0.8);
    after["work_by_hour"] = value!([]);
    let change = compare(&run(1, 1.0), &after);
    assert_eq!((change.hours, change.unit_cost.interval), (None, None));
    assert!(
        change.notes[0].starts_with("no interval, so a difference may be chance"),
        "{:?}",
        change.notes
    );
    let page = text::render(&change, ["a.json", "b.json"], 0.95);
    assert!(page.contains("by totals alone"), "{page}");

    let same = compare(&after, &after);
    let page = text::render(&same, ["a.json", "b.json"], 0.95);
    assert!(page.contains("a sample costs the same, by totals alone"), "{page}");
}

#[test]
fn different_work_is_rejected_with_all_reasons() {
    let before = run(1, 1.0);
    let cases: [(&str, Value, &str); 6] = [
        ("/work", value!({}), "b.json has no work; set --work"),
        ("/work", value!({ "tokens": { "count": 1 } }), "different units (samples, and tokens)"),
        ("/gpus/1", Value::Null, "the number of GPUs differs (2, and 1)"),
        ("/gpus/1/model", "NVIDIA L4".into(), "the GPU models differ"),
        (
            "/experiment/attributes",
            value!({ "phasemeter.workload": "serving" }),
            "the kind of workload differs (training, and serving)",
        ),
        (
            "/experiment/attributes",
            value!({}),
            "the kind of workload differs (training, and undeclared)",
        ),
    ];
    for (pointer, changed, expected) in cases {
        let mut after = run(2, 1.0);
        *after.pointer_mut(pointer).unwrap() = changed;
        after["gpus"].as_array_mut().unwrap().retain(|gpu| !gpu.is_null());
        if pointer == "/work" {
            after["work_by_hour"] = value!([]);
        }
        let error = try_compare(&before, &after, &Options::default(), &[]).unwrap_err();
        assert!(error.starts_with("a.json and b.json are not comparable: "), "{error}");
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let mut free = before.clone();
    for gpu in free["gpus"].as_array_mut().unwrap() {
        gpu["cost_usd"] = reports::usd(0).into();
        for period in gpu["periods"].as_array_mut().unwrap() {
            period["utilized_usd"] = reports::usd(0).into();
            let accounts = period["accounts"].as_object_mut().unwrap();
            accounts.values_mut().for_each(|totals| totals["cost_usd"] = reports::usd(0).into());
        }
    }
    let error = try_compare(&before, &free, &Options::default(), &[]).unwrap_err();
    assert!(error.ends_with("one of them costs nothing, so its cost per unit is zero"), "{error}");
    let mut several = before.clone();
    several["work"]["tokens"] = value!({ "count": 7 });
    let error = try_compare(&several, &several, &Options::default(), &[]).unwrap_err();
    assert!(error.ends_with("several units; set --unit to one of samples, tokens"), "{error}");
    let options = Options { unit: Some("tokens".to_owned()), ..Options::default() };
    assert_eq!(try_compare(&several, &several, &options, &[]).unwrap().unit, "tokens");
}

fn recommended(code: &str, gpus: &[&str]) -> Value {
    value!({
        "code": code, "title": "Do it", "gpus": gpus,
        "saving_fraction": { "low": 0.1, "expected": 0.2, "high": 0.3 },
    })
}

#[test]
fn saving_is_attributed_only_if_one_action_was_named() {
    let mut before = run(1, 1.0);
    before["recommendations"] =
        value!([recommended("batch", &["a"]), recommended("amp", &["a", "b"])]);
    let after = run(1, 1.25);
    let compare = |done: &[&str]| try_compare(&before, &after, &Options::default(), done);
    let one = compare(&["batch"]).unwrap();
    // Half of the bill is of the GPU that it names.
    let saving = one.promise.as_ref().unwrap().saving.unwrap();
    assert!(saving.iter().zip([0.05, 0.1, 0.15]).all(|(a, b)| (a - b).abs() < 1e-9), "{saving:?}");
    let page = text::render(&one, ["a.json", "b.json"], 0.95);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("promised to save 10.0% of the bill (5.0 to 15.0%); realized"), "{page}");
    let both = compare(&["batch", "amp"]).unwrap();
    assert_eq!(both.promise.unwrap().saving, None);
    let error = compare(&["mig"]).unwrap_err();
    assert_eq!(error, "a.json: does not recommend \"mig\"; expected one of batch, amp");
}

#[test]
fn text_fits_80_columns_and_json_follows_its_schema() {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let mut before = run(1, 1.0);
    before["recommendations"] = value!([recommended("batch", &["a"])]);
    for done in [&[][..], &["batch"]] {
        let options = Options::default();
        let compared = try_compare(&before, &run(2, 0.9), &options, done).unwrap();
        let page = text::render(&compared, ["a.json", "b.json"], options.level);
        println!("{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let mut json = Vec::new();
        json::write(&compared, ["a.json", "b.json"], &options, &mut json).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        if let Err(error) = validator.validate(&json) {
            panic!("{error} in {json:#}");
        }
    }
}
