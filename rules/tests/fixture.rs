//! Fixture files: round trips, the layout, and error messages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "tests fail by panicking, and their numbers are small"
)]

#[path = "support/strategies.rs"]
mod strategies;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroU32;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{Nanos, PPM, Timestamp};
use phasemeter_meter::waste::WasteCategory;
use phasemeter_rules::fixture::{
    read_quote, read_recommendations, read_request, read_window, write_quote,
    write_recommendations, write_request, write_window,
};
use phasemeter_rules::quote::{Quote, QuoteRequest};
use phasemeter_rules::recommendation::{
    Effort, Evidence, Need, Recommendation, RecommendationKind, Remediation, Response, Saving,
    Target,
};
use phasemeter_rules::window::{AccountTotals, Accounts, Window};
use phasemeter_savings::fraction::Fraction;
use proptest::option::of;
use proptest::prelude::*;

use strategies::{fraction, quote, request, response, window};

fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn window_text(window: &Window) -> String {
    written(|out| write_window(window, out))
}

fn response_text(response: &Response) -> String {
    written(|out| write_recommendations(response, out))
}

fn request_text(request: &QuoteRequest) -> String {
    written(|out| write_request(request, out))
}

fn quote_text(quote: Option<&Quote>) -> String {
    written(|out| write_quote(quote, out))
}

fn example_response() -> Response {
    let recommendation = Recommendation {
        code: "idle.share".to_owned(),
        target: Target::Waste(WasteCategory::Idle),
        lever: "bin_pack".parse().unwrap(),
        title: "Share it".to_owned(),
        action: "Put two jobs on it.".to_owned(),
        rationale: "It is \"idle\".\nMostly.".to_owned(),
        saving: Saving { low: fraction(0.1), expected: fraction(1.0 / 3.0), high: Fraction::ONE },
        confidence: fraction(0.8),
        evidence: BTreeMap::from([(
            "idle.time".to_owned(),
            Evidence { value: 1_200.0, unit: "s".to_owned() },
        )]),
        gpus: vec!["GPU-0".to_owned(), "GPU-1".to_owned()],
        kind: RecommendationKind::Capacity,
        effort: Effort::Medium,
        reversible: true,
        remediation: Some(Remediation {
            kind: "k8s.scale".to_owned(),
            parameters: BTreeMap::from([("replicas".to_owned(), "2".to_owned())]),
        }),
    };
    let need = Need {
        missing: "power.draw".to_owned(),
        reason: "power tells a hung job from a busy one".to_owned(),
        gpus: vec!["GPU-0".to_owned()],
    };
    Response { recommendations: vec![recommendation], needs: vec![need] }
}

fn example_quote() -> Quote {
    Quote {
        rate: Rate::parse("5.16").unwrap(),
        plan: PaymentPlan::Reserved1y,
        source: "order 4711".to_owned(),
        as_of: "2026-01-01".parse().unwrap(),
        valid_from: Timestamp::from_nanos(1_767_225_600_000_000_000),
        valid_until: Timestamp::from_nanos(1_798_761_600_000_000_000),
        gpus: NonZeroU32::new(4),
    }
}

/// Scenario: values with every field set, and a missing quote.
/// Guarantee: they are written exactly as the files in `tests/fixtures`, the format that authors
/// have in their own tests.
#[test]
fn written_files_match_examples() {
    for (name, text) in [
        ("every.window.json", window_text(&support::window(2, 4))),
        ("every.recommendations.json", response_text(&example_response())),
        ("every.request.json", request_text(&support::request())),
        ("every.quote.json", quote_text(Some(&example_quote()))),
        ("none.quote.json", quote_text(None)),
    ] {
        let path = support::home().join("tests/fixtures").join(name);
        assert_eq!(text, fs::read_to_string(path).unwrap(), "{name}");
    }
}

/// Scenario: invalid files, each with its expected error message in the `.txt` file beside it.
/// Guarantee: the error names the file, the line or field, and the problem.
#[test]
fn invalid_files_are_rejected_with_position_and_problem() {
    let directory = support::home().join("tests/fixtures/invalid");
    let mut files = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let name = path.file_name().unwrap().to_str().unwrap();
            let json = fs::read(&path).unwrap();
            let message = match name.split('.').nth(1).unwrap() {
                "window" => read_window(name, &json).unwrap_err(),
                "recommendations" => read_recommendations(name, &json).unwrap_err(),
                "request" => read_request(name, &json).unwrap_err(),
                "quote" => read_quote(name, &json).unwrap_err(),
                other => panic!("unknown kind of fixture: {other}"),
            }
            .to_string();
            let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
            assert_eq!(message, expected.trim_end());
            files += 1;
        }
    }
    assert_eq!(files, 15);
}

/// Scenario: a minimal window and a minimal request, as an author would write them.
/// Guarantee: optional fields may be omitted.
#[test]
fn optional_fields_may_be_omitted() {
    let json = r#"{
        "schema": "phasemeter.window/0.1",
        "window": {
            "start_unix_nanos": 0, "end_unix_nanos": 60000000000, "is_final": true,
            "experiment_id": "short", "trace_id": "00000000000000000000000000000001",
            "step_nanos": 1000000000,
            "gpus": [{
                "id": "GPU-0",
                "accounts": {},
                "waste_nano_usd": {"starvation": 0, "idle": 0, "underload": 0}
            }]
        }
    }"#;
    let window = read_window("short.window.json", json.as_bytes()).unwrap();
    let [gpu] = window.gpus.as_slice() else { panic!("{window:?}") };
    assert_eq!(gpu.accounts, Accounts::default());
    assert!(gpu.price.is_none() && gpu.pattern.is_none() && gpu.utilization.is_empty());

    let json = r#"{
        "schema": "phasemeter.quote-request/0.1",
        "request": {"model": "NVIDIA L4", "time_unix_nanos": 0}
    }"#;
    let request = read_request("short.request.json", json.as_bytes()).unwrap();
    assert!(request.plan.is_none() && request.listed.is_none());
}

/// Scenario: windows at the limits of the contract, and just beyond them.
/// Guarantee: each limit is accepted, and nothing beyond it.
#[test]
fn window_limits_are_inclusive() {
    let is_valid = |change: &dyn Fn(&mut Window)| {
        let mut window = support::window(2, 4);
        change(&mut window);
        read_window("x", window_text(&window).as_bytes()).is_ok()
    };
    assert!(is_valid(&|_| {}));
    assert!(is_valid(&|window| window.end = window.start));
    assert!(!is_valid(&|window| window.end = window.start.saturating_sub(Nanos(1))));
    assert!(is_valid(&|window| window.step = Nanos(1)));
    assert!(!is_valid(&|window| window.step = Nanos::ZERO));
    assert!(!is_valid(&|window| window.experiment_id.clear()));
    let hex = "0123456789abcdef0123456789abcdef";
    for (trace_id, valid) in [
        (hex.to_owned(), true),
        (hex[1..].to_owned(), false),
        (format!("{hex}0"), false),
        (hex.replace('a', "A"), false),
        (hex.replace('a', "g"), false),
    ] {
        assert_eq!(is_valid(&|window| window.trace_id.clone_from(&trace_id)), valid, "{trace_id}");
    }
    assert!(!is_valid(&|window| window.gpus[0].id.clear()));
    assert!(is_valid(&|window| window.gpus[0].week.clear()));
    assert!(!is_valid(&|window| window.gpus[0].week.truncate(167)));
    assert!(!is_valid(&|window| window.gpus[1].id = window.gpus[0].id.clone()));
    for (ppm, valid) in [(PPM, true), (PPM + 1, false)] {
        let pattern = Pattern { kind: PatternKind::Bouncing, period: None, duty_cycle: Some(ppm) };
        assert_eq!(is_valid(&|window| window.gpus[1].pattern = Some(pattern)), valid, "{ppm}");
    }

    let accounts: [fn(&mut Accounts) -> &mut AccountTotals; 7] = [
        |accounts| &mut accounts.idle_held,
        |accounts| &mut accounts.idle_free,
        |accounts| &mut accounts.idle_unknown,
        |accounts| &mut accounts.underutilized,
        |accounts| &mut accounts.productive,
        |accounts| &mut accounts.compute_bound,
        |accounts| &mut accounts.unobserved,
    ];
    for account in accounts {
        for more in [0, 1] {
            let effective_time = |window: &mut Window| {
                let totals = account(&mut window.gpus[1].accounts);
                totals.effective_time = totals.time + Nanos(more);
            };
            assert_eq!(is_valid(&effective_time), more == 0);
            let utilized_cost = |window: &mut Window| {
                let totals = account(&mut window.gpus[1].accounts);
                totals.utilized_cost = totals.cost + NanoUsd(more.into());
            };
            assert_eq!(is_valid(&utilized_cost), more == 0);
        }
    }
}

/// Scenario: columns of any length, and values at the limits of their range.
/// Guarantee: all columns of a window have the same length, at most 600 points, and no value out of
/// range.
#[test]
fn window_columns_are_limited() {
    let is_valid = |utilization: &[f64], power: &[f64], memory: &[f64]| {
        let mut window = support::window(2, 0);
        window.gpus[0].utilization = utilization.to_vec();
        window.gpus[1].power = power.to_vec();
        window.gpus[1].memory = memory.to_vec();
        read_window("x", window_text(&window).as_bytes()).is_ok()
    };
    assert!(is_valid(&[], &[], &[]));
    assert!(is_valid(&[0.0, 1.0], &[0.0, f64::MAX], &[0.0, f64::MAX]));
    assert!(is_valid(&[f64::NAN; 2], &[], &[f64::NAN; 2]));
    for invalid in [-1e-9, 1.0 + 1e-9] {
        assert!(!is_valid(&[0.5, invalid], &[], &[]), "{invalid}");
    }
    assert!(!is_valid(&[], &[1.0, -1e-9], &[]));
    assert!(!is_valid(&[], &[], &[1.0, -1e-9]));
    assert!(!is_valid(&[0.5; 2], &[1.0; 3], &[]));
    assert!(!is_valid(&[], &[1.0; 3], &[1.0; 2]));
    assert!(is_valid(&[0.5; 600], &[1.0; 600], &[1.0; 600]));
    assert!(!is_valid(&[0.5; 601], &[], &[]));
}

proptest! {
    /// Compares debug output because NaN != NaN.
    #[test]
    fn window_round_trips(window in window()) {
        let text = window_text(&window);
        let read = read_window("x", text.as_bytes()).unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{window:?}"));
        prop_assert_eq!(window_text(&read), text);
    }

    #[test]
    fn response_round_trips(response in response()) {
        let text = response_text(&response);
        prop_assert_eq!(read_recommendations("x", text.as_bytes()).unwrap(), response);
    }

    #[test]
    fn request_round_trips(request in request()) {
        let text = request_text(&request);
        prop_assert_eq!(read_request("x", text.as_bytes()).unwrap(), request);
    }

    #[test]
    fn quote_round_trips(quote in of(quote())) {
        let text = quote_text(quote.as_ref());
        prop_assert_eq!(read_quote("x", text.as_bytes()).unwrap(), quote);
    }
}
