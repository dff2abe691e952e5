//! Contracts with a beginning, an end and a number of GPUs.

use std::fs;

use serde_json::Value;

use crate::otlp;
use crate::phasemeter::{Outcome, Phasemeter};
use crate::report::{self, list, nanos};

const L4: &str = "NVIDIA L4";

/// The list price in nano-dollars.
const LISTED: i128 = 977_600_000;

/// Rows of four GPUs every second around midnight, from `from` to `to` seconds after it.
fn rows(model: &str, from: i64, to: i64) -> Vec<String> {
    let row = |second: i64, gpu: i64| {
        let (day, second) = (27 + second.div_euclid(86_400), second.rem_euclid(86_400));
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let time = format!("{hour:02}:{minute:02}:{second:02}.{gpu}00");
        format!("2026/07/{day:02} {time}, {gpu}, {model}, 50\n")
    };
    (from..=to).flat_map(|second| [0, 1, 2, 3].map(|gpu| row(second, gpu))).collect()
}

fn text(rows: &[String]) -> String {
    format!("timestamp, index, name, utilization.gpu [%]\n{}", rows.concat())
}

struct Terms {
    dir: tempfile::TempDir,
}

impl Terms {
    fn new(commitments: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let terms = format!(
            r#"{{"contract": "order 4711", "as_of": "2026-01-01", "commitments": [{commitments}]}}"#
        );
        fs::write(dir.path().join("terms.json"), terms).unwrap();
        Self { dir }
    }

    fn run(&self, log: String, args: &[&str]) -> Outcome {
        let run = Phasemeter::audit().within(self.dir.path()).stdin(log).args(["-"]).args(args);
        let run = run.args(["--policy-settings", "negotiated=terms.json"]);
        run.args(["--provider", "aws", "--instance-type", "g6.2xlarge"]).run()
    }

    fn report(&self, log: String) -> Value {
        let outcome = self.run(log, &["--otlp-file", "otlp.jsonl"]);
        assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
        let report = outcome.json();
        report::check(&report);
        report
    }
}

/// Milliseconds from midnight to the last reading, until which all GPUs are billed.
const RUN_END: i128 = 600_300;

/// The cost of a GPU for pairs of rate in nano-dollars per hour and milliseconds.
fn bill(terms: &[(i128, i128)]) -> Option<i128> {
    Some(terms.iter().map(|(rate, millis)| rate * millis).sum::<i128>() / 3_600_000)
}

fn costs(report: &Value) -> Vec<Option<i128>> {
    list(&report["gpus"]).iter().map(|gpu| nanos(&gpu["cost_usd"])).collect()
}

/// Scenario: a contract for two GPUs begins at midnight during a run; readings in two orders of arrival;
/// the run begins long before it, or ten seconds.
/// Guarantee: the first two GPUs have its price from exactly that instant on, the others the list price
/// throughout. The report notes that its number of GPUs is unchecked across runs.
#[test]
fn contract_begins_during_run_for_its_number_of_gpus() {
    let terms = Terms::new(
        r#"{"model": "NVIDIA L4", "usd_per_gpu_hour": 0.41, "from": "2026-07-27", "gpus": 2}"#,
    );
    for before in [1_800, 10] {
        let ordered = rows(L4, -before, 600);
        let mut late = ordered.clone();
        // Within the allowed lateness, across midnight too.
        late[4..].chunks_mut(8).for_each(<[String]>::reverse);
        // The first GPUs in report order are not those found first.
        let mut last_first = ordered.clone();
        last_first.chunks_mut(4).for_each(<[String]>::reverse);
        for rows in [&ordered, &late, &last_first] {
            let report = terms.report(text(rows));
            let expected = [0, 1, 2, 3].map(|gpu| {
                let (before, after) = (i128::from(before) * 1_000 - gpu * 100, RUN_END);
                let contract = if gpu < 2 { 410_000_000 } else { LISTED };
                bill(&[(LISTED, before), (contract, after)])
            });
            assert_eq!(costs(&report), expected);
            let first = &report["gpus"][0];
            assert_eq!(first["price"]["source"], "order 4711, quoted by negotiated");
            assert_eq!(first["earlier_prices"][0]["until"], "2026-07-27T00:00:00Z");
            assert_eq!(report["gpus"][2]["earlier_prices_total"], 0);
            let notes = report["assumptions"].to_string();
            let note = "order 4711, quoted by negotiated, is for 2 NVIDIA L4 of this run; its use in \
                        other runs is unchecked";
            assert!(notes.contains(note), "{notes}");
        }
    }
}

/// The offers in the window of a log of four GPUs: those of an instance with eight.
fn offers(terms: &str, args: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("terms.json"), terms).unwrap();
    let run = Phasemeter::audit().within(dir.path()).stdin(text(&rows(L4, 0, 60))).args(["-"]);
    let run = run.args(["--policy-settings", "negotiated=terms.json", "--region", "us-east-1"]);
    let run = run.args(["--provider", "aws", "--dump-windows", "window.json"]).args(args).run();
    assert_eq!(run.status, 0, "{}", run.err);
    let window = fs::read_to_string(dir.path().join("window.json")).unwrap();
    let window: Value = serde_json::from_str(&window).unwrap();
    let offers = list(&window["window"]["offers"]).iter();
    let is_whole = |offer: &&Value| {
        offer["price"]["instance_type"] == "g6.48xlarge" && offer["price"]["plan"] != "spot"
    };
    offers.filter(is_whole).cloned().collect()
}

/// Scenario: a discount applies to a provider, then also a commitment for one GPU, or a given price.
/// Guarantee: offers have the discounted price; an instance of eight GPUs does not have that of one; and
/// pricers are not queried if the price is given.
#[test]
fn offers_have_negotiated_prices_of_whole_instances() {
    let discount =
        r#"{"contract": "order 4711", "as_of": "2026-01-01", "discounts": {"aws": 0.5}}"#;
    let one = r#"{"contract": "order 4711", "as_of": "2026-01-01", "commitments": [
        {"model": "NVIDIA L4", "usd_per_gpu_hour": 0.01, "gpus": 1}]}"#;
    let rate = |offers: Vec<Value>| match &offers[..] {
        [offer] => {
            let is_quoted = offer["price"]["source"].as_str().unwrap().contains("quoted by");
            (offer["price"]["nano_usd_per_gpu_hour"].as_f64().unwrap() / 1e9, is_quoted)
        }
        other => panic!("expected one offer: {other:#?}"),
    };
    let (listed, is_quoted) = rate(offers(one, &[]));
    assert!(listed > 0.5 && !is_quoted, "{listed}");
    let (given, is_quoted) = rate(offers(discount, &["--price", "3"]));
    assert!((given - listed).abs() < 1e-9 && !is_quoted, "{given}");
    let (negotiated, is_quoted) = rate(offers(discount, &[]));
    assert!((negotiated - listed / 2.0).abs() < 1e-6 && is_quoted, "{negotiated}");
}

/// Scenario: commitments for one and two GPUs with different ends, then all others at the list price.
/// Guarantee: each applies to the GPUs after those of the one before it, until its end; then those
/// after it move up.
#[test]
fn commitments_follow_one_another_by_number_of_gpus() {
    let terms = Terms::new(
        r#"{"model": "NVIDIA L4", "usd_per_gpu_hour": 0.1, "until": "2026-07-26", "gpus": 1},
           {"model": "NVIDIA L4", "usd_per_gpu_hour": 0.2, "gpus": 2}"#,
    );
    let report = terms.report(text(&rows(L4, -600, 600)));
    let (first, second) = (100_000_000, 200_000_000);
    let prices = [(first, second), (second, second), (second, LISTED), (LISTED, LISTED)];
    let expected: Vec<_> = (0..)
        .zip(prices)
        .map(|(gpu, (before, after))| bill(&[(before, 600_000 - gpu * 100), (after, RUN_END)]))
        .collect();
    assert_eq!(costs(&report), expected);
}

/// Scenario: a contract begins at midnight for a model that the price book does not list.
/// Guarantee: only time since then is billed, the report states that costs are incomplete, and no cost
/// is exported before.
#[test]
fn contract_of_unlisted_model_leaves_earlier_time_unpriced() {
    let model = "NVIDIA GeForce RTX 4090";
    let terms = Terms::new(
        r#"{"model": "NVIDIA GeForce RTX 4090", "usd_per_gpu_hour": 0.5, "from": "2026-07-27"}"#,
    );
    let report = terms.report(text(&rows(model, -600, 600)));
    let expected = [bill(&[(500_000_000, RUN_END)]); 4];
    assert_eq!(costs(&report), expected);
    let reason = report["cost"]["unpriced_reason"].as_str().unwrap();
    let start =
        "the costs of 4 of 4 GPUs are incomplete: no price before 2026-07-27T00:00:00Z: no list";
    assert!(reason.starts_with(start), "{reason}");
    assert_eq!(report["cost"]["cost_per_effective_gpu_hour_usd"], Value::Null);
    let sent = fs::read_to_string(terms.dir.path().join("otlp.jsonl")).unwrap();
    let sent = otlp::read(&sent);
    let midnight = 1_785_110_400_000_000_000;
    let streams = sent.streams("phasemeter.gpu.cost");
    let points = streams.values().flat_map(|stream| &stream.points);
    let times: Vec<_> = points.map(|point| point.time).collect();
    assert!(!times.is_empty() && times.iter().all(|time| *time >= midnight), "{times:?}");
}

/// Guarantee: settings that a pricer named by the user rejects are an error, however they are given, and
/// not a bill at the list price.
#[test]
fn invalid_settings_of_named_pricer_exit_78() {
    let invalid = r#"{"model": "NVIDIA L4", "usd_per_gpu_hour": 0.41, "from": "2026-07-27",
        "until": "2026-07-26"}"#;
    let terms = Terms::new(invalid);
    let log = text(&rows(L4, 0, 60));
    let outcome = terms.run(log.clone(), &[]);
    let expected = "negotiated (default): invalid settings: commitments.0.until: before 'from'; \
                    expected that day or a later one";
    assert_eq!((outcome.status, outcome.error_line()), (78, expected));

    let negotiated = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wasm-rules/dist/negotiated.wasm");
    let path = |name: &str| terms.dir.path().join(name);
    fs::copy(negotiated, path("mine.wasm")).unwrap();
    fs::rename(path("terms.json"), path("mine.json")).unwrap();
    let run = Phasemeter::audit().within(terms.dir.path()).stdin(log);
    let outcome = run.args(["-", "--policy", "mine.wasm"]).run();
    assert_eq!(outcome.status, 78, "{outcome:?}");
    assert!(outcome.error_line().starts_with("mine.wasm: invalid settings: "), "{outcome:?}");
}
