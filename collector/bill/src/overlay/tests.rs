//! The result is the profile, with tracks before its events.

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A report of one GPU with whole seconds, from `start`: periods of such lengths and costs, and a timeline.
fn report(start: u64, periods: &[(u64, u64)], timeline: Option<&Value>, pattern: &Value) -> Report {
    let instant = |nanos: u64| Instant(Timestamp::from_nanos(nanos).unwrap()).to_string();
    let usd = |nanos: u64| NanoUsd(nanos.into()).to_string();
    let mut at = start;
    let mut list = Vec::new();
    for (seconds, cost) in periods {
        let end = at + seconds * 1_000_000_000;
        list.push(json!({
            "start": instant(at), "end": instant(end), "effective_seconds": 0.0, "utilized_usd": null,
            "accounts": {"productive": {"seconds": *seconds as f64, "cost_usd": usd(*cost)}},
        }));
        at = end;
    }
    let all: u64 = periods.iter().map(|period| period.1).sum();
    let gpu = json!({
        "id": "GPU-1", "index": 3, "model": "NVIDIA L4", "cost_usd": usd(all), "rate_usd_per_gpu_hour": null,
        "earlier_prices_total": 0, "periods": list, "timeline": timeline, "pattern": pattern,
    });
    let report = json!({
        "schema": "phasemeter.report/0.1", "title": "a \"log\"", "experiment": {"id": "e", "attributes": {}},
        "gpus": [gpu], "work": {}, "work_by_hour": [], "recommendations": [],
    });
    crate::read::read("report.json", report.to_string().as_bytes()).unwrap().0
}

fn overlay(profile: &str, report: &Report) -> Result<(String, Overlay), OverlayError> {
    let read = Profile::read("t.json", profile.as_bytes())?;
    let mut out = Vec::new();
    let overlay = write("t.json", &read, report, profile.as_bytes(), &mut out)?;
    Ok((String::from_utf8(out).unwrap(), overlay))
}

/// The events that were added, with numbers as they are written.
fn added(profile: &str, out: &str) -> Vec<String> {
    let at = profile.find('[').unwrap() + 1;
    let (head, tail) = profile.split_at(at);
    let added = out.strip_prefix(head).unwrap().strip_suffix(tail).unwrap();
    serde_json::from_str::<Value>(out).unwrap();
    added
        .split_inclusive("},")
        .scan(String::new(), |open, part| {
            open.push_str(part);
            let is_whole = serde_json::from_str::<Value>(open.trim_end_matches(',')).is_ok();
            Some(if is_whole { std::mem::take(open) } else { String::new() })
        })
        .filter(|event| !event.is_empty())
        .collect()
}

/// A number of an event in thousandths: microseconds as nanoseconds.
fn thousandths(event: &str, key: &str) -> i128 {
    let (_, rest) = event.split_once(&format!("\"{key}\":")).unwrap();
    let number = rest.split([',', '}']).next().unwrap();
    let (whole, fraction) = number.split_once('.').unwrap();
    assert_eq!(fraction.len(), 3, "{event}");
    whole.parse::<i128>().unwrap() * 1_000 + fraction.parse::<i128>().unwrap()
}

fn dollars(event: &str) -> i128 {
    let (_, rest) = event.split_once("\"usd\":").unwrap();
    rest.split('}').next().unwrap().replace('.', "").parse().unwrap()
}

#[test]
fn phases_and_dollars_are_tracks_before_the_events() {
    let start = 1_785_000_000 * 1_000_000_000;
    let timeline = json!({"start": "2026-07-25T17:20:00Z", "step_seconds": 20.0,
        "utilization_percent": [9.9, null, 70.0, 90.0]});
    let report = report(start, &[(100, 100_000)], Some(&timeline), &Value::Null);
    let profile = format!(
        r#"{{"baseTimeNanoseconds":{start},"traceEvents":[{{"ph":"X","ts":10000000.5,"dur":85000000,"pid":1,"tid":8}}]}}"#
    );
    let (out, overlay) = overlay(&profile, &report).unwrap();
    let events = added(&profile, &out);
    let named = r#"{"ph":"M","name":"process_name","pid":9,"tid":9,"args":{"name":"Phasemeter: a \"log\""}},"#;
    assert_eq!(events[0], named);
    assert!(
        events[2].contains(r#""pid":9,"tid":10,"args":{"name":"GPU 3, phase of each 20 s"}"#),
        "{}",
        events[2]
    );
    let slices: Vec<_> = events.iter().filter(|event| event.contains("\"X\"")).collect();
    let expected = [
        r#"{"ph":"X","cat":"phasemeter","name":"idle","pid":9,"tid":10,"ts":10000000.500,"dur":9999999.500,"args":{"utilization_percent":9.9,"usd":0.000010000}},"#,
        r#"{"ph":"X","cat":"phasemeter","name":"unobserved","pid":9,"tid":10,"ts":20000000.000,"dur":20000000.000,"args":{"usd":0.000020000}},"#,
        r#"{"ph":"X","cat":"phasemeter","name":"productive","pid":9,"tid":10,"ts":40000000.000,"dur":20000000.000,"args":{"utilization_percent":70.0,"usd":0.000020000}},"#,
        r#"{"ph":"X","cat":"phasemeter","name":"compute-bound","pid":9,"tid":10,"ts":60000000.000,"dur":20000000.000,"args":{"utilization_percent":90.0,"usd":0.000020000}},"#,
        r#"{"ph":"X","cat":"phasemeter","name":"unobserved","pid":9,"tid":10,"ts":80000000.000,"dur":15000000.500,"args":{"usd":0.000015000}},"#,
    ];
    assert_eq!(slices, expected);
    let totals: Vec<_> =
        events.iter().filter(|event| event.contains("\"C\"")).map(|event| dollars(event)).collect();
    assert_eq!(totals, [0, 10_000, 30_000, 50_000, 70_000, 85_000]);
    assert_eq!(
        overlay,
        Overlay {
            gpus: 1,
            metered: Nanos(85_000_000_000),
            step: Some(Nanos::from_secs(20)),
            cost: Some(NanoUsd(85_000)),
        }
    );
}

#[test]
fn step_in_which_a_gpu_bounces_has_no_phase_of_its_mean() {
    let start = 1_785_000_000 * 1_000_000_000;
    let timeline = json!({"start": "2026-07-25T17:20:00Z", "step_seconds": 16.0, "utilization_percent": [50.0, 95.0]});
    let names = |period: f64| {
        let pattern = json!({"kind": "bouncing", "period_seconds": period});
        let report = report(start, &[(32, 1)], Some(&timeline), &pattern);
        let profile = format!(r#"{{"traceEvents":[{{"ts":{},"dur":32000000}}]}}"#, start / 1_000);
        let (out, _) = overlay(&profile, &report).unwrap();
        ["idle and busy", "underutilized", "compute-bound"]
            .map(|name| out.contains(&format!("\"{name}\"")))
    };
    assert_eq!(names(20.0), [true, false, true]);
    assert_eq!(names(32.0), [false, true, true]);
}

#[test]
fn profile_of_another_time_and_one_that_changed_are_refused() {
    let start = 1_785_000_000 * 1_000_000_000;
    let report = report(start, &[(60, 1)], None, &Value::Null);
    let at = |seconds: u64| {
        format!(r#"{{"traceEvents":[{{"ts":{},"dur":5}}]}}"#, (start / 1_000) + seconds * 1_000_000)
    };
    let error = overlay(&at(60), &report).unwrap_err().to_string();
    let expected = "t.json: is of 2026-07-25T17:21:00Z to 2026-07-25T17:21:00.000005Z, and the report of \
                    2026-07-25T17:20:00Z to 2026-07-25T17:21:00Z; name a report of the same time";
    assert_eq!(error, expected);
    let profile = Profile::read("t.json", at(0).as_bytes()).unwrap();
    for changed in ["", "{\"traceEvents\":", "{\"traceEvents\": [{}]}"] {
        let error = write("t.json", &profile, &report, changed.as_bytes(), Vec::new()).unwrap_err();
        assert!(matches!(error, OverlayError::Changed { .. }), "{changed}: {error}");
    }
}

#[test]
fn gpus_without_a_price_have_phases_only() {
    let start = 1_785_000_000 * 1_000_000_000;
    let mut report = report(start, &[(60, 0)], None, &Value::Null);
    report.gpus[0].cost_usd = None;
    let profile = format!(r#"{{"traceEvents":[{{"ts":{},"dur":5}}]}}"#, start / 1_000);
    let (out, overlay) = overlay(&profile, &report).unwrap();
    assert!(!out.contains("usd") && out.contains("\"unobserved\""), "{out}");
    assert_eq!((overlay.cost, overlay.step), (None, None));
}

proptest! {
    /// Whatever the times of both: slices tile what they have in common, their dollars are those of that time, and of
    /// all of it the bill.
    #[test]
    fn tracks_tile_the_common_time_and_sum_to_its_dollars(
        start in (1_600_000_000_u64..1_800_000_000).prop_map(|seconds| seconds * 1_000_000_000),
        late in 0_u64..1_000_000_000,
        periods in prop::collection::vec((1_u64..3_600, 0_u64..20_000_000_000), 1..6),
        base in 1_500_000_000_000_000_000_u64..1_600_000_000_000_000_000,
        begin in -2_000_i64..20_000,
        length in 1_u64..20_000_000_000_000,
        step in 0_u64..600,
        shift in 0_u64..100,
        means in prop::collection::vec(prop::option::of(0.0_f64..=100.0), 0..20),
    ) {
        let start = start + late;
        let first = Timestamp::from_nanos(start - shift * 1_000_000_000).unwrap();
        let timeline = json!({"start": Instant(first).to_string(),
            "step_seconds": step as f64, "utilization_percent": means});
        let report = report(start, &periods, Some(&timeline), &Value::Null);
        let end = start + periods.iter().map(|period| period.0).sum::<u64>() * 1_000_000_000;
        let from = start.saturating_add_signed(begin * 1_000_000_000);
        let relative = from - base;
        let profile = format!(
            r#"{{"baseTimeNanoseconds":{base},"traceEvents":[{{"ph":"X","ts":{}.{:03},"dur":{}.{:03}}}]}}"#,
            relative / 1_000, relative % 1_000, length / 1_000, length % 1_000,
        );
        // Microseconds of years have fewer decimals in a double than three.
        let span = Profile::read("t.json", profile.as_bytes()).unwrap().span;
        let [from, to] = [span.0, span.1].map(Timestamp::as_nanos);
        prop_assert!(from.abs_diff(base + relative) < 1_000);
        let common = (from.max(start), to.min(end));
        let result = overlay(&profile, &report);
        if common.0 >= common.1 {
            let is_apart = matches!(result, Err(OverlayError::Apart { .. }));
            prop_assert!(is_apart);
            return Ok(());
        }
        let (out, overlay) = result.unwrap();
        let events = added(&profile, &out);
        let mut at = i128::from(common.0) - i128::from(base);
        let mut sum = 0;
        for event in events.iter().filter(|event| event.contains("\"X\"")) {
            prop_assert_eq!(thousandths(event, "ts"), at, "{}", event);
            at += thousandths(event, "dur");
            sum += dollars(event);
        }
        prop_assert_eq!(at, i128::from(common.1) - i128::from(base));
        prop_assert_eq!(overlay.metered, Nanos(common.1 - common.0));
        // What each period has of the time, worked out on its own.
        let mut expected = 0;
        let mut period_start = start;
        for (seconds, cost) in &periods {
            let length = u128::from(seconds * 1_000_000_000);
            let until = |at: u64| u128::from(*cost) * u128::from(at.clamp(period_start, period_start + seconds * 1_000_000_000) - period_start) / length;
            expected += until(common.1) - until(common.0);
            period_start += seconds * 1_000_000_000;
        }
        prop_assert_eq!(sum, i128::try_from(expected).unwrap());
        prop_assert_eq!(overlay.cost, Some(NanoUsd(sum)));
        let totals: Vec<_> = events.iter().filter(|event| event.contains("\"C\"")).map(|event| dollars(event)).collect();
        prop_assert!(totals.is_sorted() && totals[0] == 0 && totals.last() == Some(&sum));
        if (from, to) == (from.min(start), to.max(end)) {
            prop_assert_eq!(report.gpus[0].cost_usd.unwrap().0, NanoUsd(sum));
        }
    }
}
