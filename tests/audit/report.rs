//! Checks the JSON report against its schema and its sums.

use std::sync::LazyLock;

use serde_json::Value;

const SCHEMA: &str = include_str!("../../collector/report/src/report.schema.json");

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap());

/// Nano-dollars of a decimal text with nine decimals.
pub(crate) fn nanos(usd: &Value) -> Option<i128> {
    let (whole, decimals) = usd.as_str()?.split_once('.').unwrap();
    assert_eq!(decimals.len(), 9, "{usd}");
    Some(format!("{whole}{decimals}").parse().unwrap())
}

/// Whole milliseconds of a number of seconds.
pub(crate) fn millis(seconds: &Value) -> u64 {
    let millis = seconds.as_f64().unwrap() * 1_000.0;
    assert!((millis - millis.round()).abs() < 1e-4, "{seconds} s: expected whole milliseconds");
    millis.round() as u64
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap()
}

/// Accounts of periods, and where the report has their totals.
const ACCOUNTS: [(&str, &str); 5] = [
    ("idle_unknown", "/phases/idle_unknown"),
    ("underutilized", "/phases/underutilized"),
    ("productive", "/phases/productive"),
    ("compute_bound", "/phases/compute_bound"),
    ("unobserved", ""),
];

/// Periods tile the span of a GPU and sum to its accounts.
fn check_periods(gpu: &Value) {
    let periods = list(&gpu["periods"]);
    let mut end = &gpu["start"];
    for period in periods {
        assert_eq!(&period["start"], end);
        end = &period["end"];
    }
    assert!(periods.is_empty() || end == &gpu["end"], "{end}");
    let accounts = || periods.iter().flat_map(|period| period["accounts"].as_object().unwrap());
    let cost: i128 = accounts().filter_map(|(_, totals)| nanos(&totals["cost_usd"])).sum();
    assert_eq!(cost, nanos(&gpu["cost_usd"]).unwrap_or(0), "cost");
    let utilized: i128 = periods.iter().filter_map(|period| nanos(&period["utilized_usd"])).sum();
    assert_eq!(utilized, nanos(&gpu["utilized_usd"]).unwrap_or(0), "utilized");
    for (name, totals) in ACCOUNTS {
        let mine = || accounts().filter(|(account, _)| *account == name).map(|(_, totals)| totals);
        let seconds: f64 = mine().map(|totals| totals["seconds"].as_f64().unwrap()).sum();
        let cost: i128 = mine().filter_map(|totals| nanos(&totals["cost_usd"])).sum();
        let (all, usd) = match totals {
            "" => (&gpu["unobserved_seconds"], &gpu["unobserved_usd"]),
            totals => {
                let totals = gpu.pointer(totals).unwrap();
                (&totals["seconds"], &totals["cost_usd"])
            }
        };
        let all = all.as_f64().unwrap();
        assert!((seconds - all).abs() <= 1e-6 + all * 1e-12, "{name}: {seconds} s, not {all}");
        assert_eq!(cost, nanos(usd).unwrap_or(0), "{name}");
    }
    let effective: f64 =
        periods.iter().map(|period| period["effective_seconds"].as_f64().unwrap()).sum();
    let all = gpu["effective_seconds"].as_f64().unwrap();
    assert!((effective - all).abs() <= 1e-6 + all * 1e-12, "{effective} s, not {all}");
}

/// What holders used, did not use and never touched, and what is nobody's, sum to the time and the bill of a GPU.
fn check_holders(gpu: &Value) {
    let Some(nobody) = gpu.get("nobody") else { return };
    let of = |name: &str, unit: &str| format!("{name}_{unit}");
    let names = ["used", "granted_unused", "never_touched"];
    let holders = list(&gpu["holders"]);
    let seconds = |holder: &Value| {
        names.iter().map(|name| holder[of(name, "seconds")].as_f64().unwrap()).sum::<f64>()
    };
    let time = holders.iter().map(seconds).sum::<f64>() + nobody["seconds"].as_f64().unwrap();
    let span = gpu["span_seconds"].as_f64().unwrap();
    assert!((time - span).abs() <= 1e-6 + span * 1e-12, "{time} s, not {span}: {gpu:#}");
    let Some(bill) = nanos(&gpu["cost_usd"]) else { return };
    let usd = |value: &Value| nanos(value).unwrap();
    let cost = |holder: &Value| {
        let accounts: i128 = names.iter().map(|name| usd(&holder[of(name, "usd")])).sum();
        assert_eq!(accounts, usd(&holder["cost_usd"]), "{holder:#}");
        accounts
    };
    assert_eq!(holders.iter().map(cost).sum::<i128>() + usd(&nobody["cost_usd"]), bill, "{gpu:#}");
}

const PHASES: [&str; 4] = ["idle", "underutilized", "productive", "compute_bound"];

/// Checks that a report follows the schema and that its sums are consistent.
pub(crate) fn check(report: &Value) {
    if let Err(error) = VALIDATOR.validate(report) {
        panic!("{error} at {} in {report:#}", error.instance_path());
    }
    let gpus = list(&report["gpus"]);
    for gpu in gpus {
        check_time(gpu);
        check_money(gpu, &gpu["cost_usd"], &gpu["phases"]);
        check_periods(gpu);
        check_holders(gpu);
    }
    let (fleet, cost) = (&report["fleet"], &report["cost"]);
    check_time(fleet);
    check_money(cost, &cost["total_usd"], &fleet["phases"]);
    for (all, each) in [
        ("total_usd", "cost_usd"),
        ("utilized_usd", "utilized_usd"),
        ("waste_usd", "waste_usd"),
        ("unobserved_usd", "unobserved_usd"),
        ("hourly_usd", "rate_usd_per_gpu_hour"),
    ] {
        let sum: i128 = gpus.iter().filter_map(|gpu| nanos(&gpu[each])).sum();
        assert_eq!(nanos(&cost[all]).unwrap_or(0), sum, "{all}");
    }
    if let Some(hourly) = nanos(&cost["hourly_usd"]) {
        assert_eq!(nanos(&cost["monthly_usd"]), Some(hourly * 24 * 30));
        assert_eq!(nanos(&cost["yearly_usd"]), Some(hourly * 24 * 365));
    }
    check_recommendations(report);
    let listed = list(&report["rejected_rows"]).len() as u64;
    assert_eq!(listed, report["rejected_total"].as_u64().unwrap().min(100));
}

/// Phases and unobserved time sum to the span; percentages sum to 100.
fn check_time(of: &Value) {
    let seconds = |phase: &str| of["phases"][phase]["seconds"].as_f64().unwrap();
    let near =
        |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b.max(1_000.0), "{a} ≠ {b}: {of:#}");
    let observed: f64 = PHASES.map(seconds).iter().sum();
    let unobserved = of["unobserved_seconds"].as_f64().unwrap();
    near(observed + unobserved, of["span_seconds"].as_f64().unwrap());
    let idle = ["idle_held", "idle_free", "idle_unknown"];
    let idle = idle.map(|part| of["phases"][part]["seconds"].as_f64().unwrap_or(0.0));
    near(idle.iter().sum(), seconds("idle"));
    let reasons = list(&of["unobserved_reasons"]).iter();
    near(reasons.map(|reason| reason["seconds"].as_f64().unwrap()).sum(), unobserved);

    let percents = PHASES.map(|phase| of["phases"][phase]["percent"].as_f64());
    let tenths = percents.map(|percent| percent.map(|percent| (percent * 10.0).round()));
    let all = tenths.iter().copied().sum::<Option<f64>>();
    assert_eq!(all, (observed > 0.0).then_some(1_000.0), "{of:#}");
}

/// Phases and unobserved cost sum to the bill, as do utilized, wasted and unobserved cost; waste
/// categories sum to the waste.
fn check_money(of: &Value, bill: &Value, phases: &Value) {
    let Some(bill) = nanos(bill) else { return };
    let usd = |value: &Value| nanos(value).unwrap();
    let phase = |phase: &str| usd(&phases[phase]["cost_usd"]);
    let unobserved = usd(&of["unobserved_usd"]);
    assert_eq!(PHASES.map(phase).iter().sum::<i128>() + unobserved, bill, "{of:#}");
    let waste = usd(&of["waste_usd"]);
    assert_eq!(usd(&of["utilized_usd"]) + waste + unobserved, bill, "{of:#}");
    let by_category = &of["waste_by_category_usd"];
    let categories =
        ["starvation", "idle", "underload"].map(|category| usd(&by_category[category]));
    assert_eq!(categories.iter().sum::<i128>(), waste, "{of:#}");
    let idle = ["idle_held", "idle_free", "idle_unknown"];
    let idle = idle.map(|part| nanos(&phases[part]["cost_usd"]).unwrap_or(0));
    assert_eq!(idle.iter().sum::<i128>(), phase("idle"), "{of:#}");
}

/// All waste is advised, on trial, uncovered or minor.
fn check_coverage(report: &Value) {
    let covered = &report["waste_coverage"];
    let waste = nanos(&report["cost"]["waste_usd"]);
    if covered.is_null() {
        return;
    }
    let parts = ["advised_usd", "uncovered_usd", "trial_usd", "minor_usd"];
    let parts = parts.map(|part| nanos(&covered[part]).unwrap());
    assert_eq!(Some(parts.iter().sum::<i128>()), waste, "{report:#}");
    let uncovered = list(&report["uncovered_waste"]).iter().filter_map(|it| nanos(&it["usd"]));
    assert_eq!(uncovered.sum::<i128>(), parts[1], "{report:#}");
}

/// Whether a recommendation is a hypothesis that was not tried.
pub(crate) fn is_open_trial(it: &Value) -> bool {
    !it["trial"].is_null() && it["trial"]["settled"].is_null()
}

/// Hypotheses have what decides them, and are in no sum until they are settled.
fn check_trials(report: &Value) {
    for it in list(&report["recommendations"]) {
        assert_eq!(it["proof"] == "trial", !it["trial"].is_null(), "{it:#}");
        assert!(it["kind"] != "risk" || it["proof"].is_null(), "{it:#}");
        assert!(!(is_open_trial(it) && it["counted"] == true), "{it:#}");
    }
    let open: Vec<_> = list(&report["recommendations"])
        .iter()
        .filter(|it| is_open_trial(it))
        .map(|it| (&it["policy"], &it["code"], &it["gpus"]))
        .collect();
    let Some(gpus) = report["savings"]["gpus"].as_array() else { return };
    for (gpu, step) in
        gpus.iter().flat_map(|gpu| list(&gpu["steps"]).iter().map(move |it| (gpu, it)))
    {
        let is_counted = open.iter().any(|(policy, code, gpus)| {
            let source = &step["source"];
            (&source["policy"], &source["code"]) == (*policy, *code)
                && list(gpus).contains(&gpu["id"])
        });
        assert!(!is_counted, "{step:#}");
    }
}

/// Recommendations are sorted by what is at stake: after risks, and before lower rates. Of one stake, savings come first, then trials,
/// by saving times confidence. Together they save no more than possible.
fn check_recommendations(report: &Value) {
    let recommendations = list(&report["recommendations"]);
    // What could be recommended to anyone.
    let general = ["spot", "reserved_1y", "reserved_3y", "region", "provider"];
    let place = |it: &Value| match (it["kind"].as_str().unwrap(), it["target"].as_str().unwrap()) {
        ("risk", _) => 0,
        ("saving", "rate") if general.contains(&it["lever"].as_str().unwrap()) => 2,
        _ => 1,
    };
    assert!(recommendations.is_sorted_by_key(place), "{report:#}");
    let stake = |it: &Value| (place(it), std::cmp::Reverse(nanos(&it["at_stake"]["usd"])));
    assert!(recommendations.is_sorted_by_key(stake), "{report:#}");
    let kind = |it: &Value| match it["kind"].as_str().unwrap() {
        "saving" if it["saving_fraction"]["high"].as_f64().unwrap() > 0.0 => {
            i32::from(is_open_trial(it))
        }
        "risk" | "capacity" => 2,
        _ => 3,
    };
    let worth = |it: &Value| {
        let usd = nanos(&it["saving_usd"]["expected"])?;
        Some(usd as f64 * it["confidence"].as_f64().unwrap())
    };
    let has_price = |it: &&Value| !it["at_stake"]["usd"].is_null() || place(it) != 1;
    let priced: Vec<&Value> = recommendations.iter().filter(has_price).collect();
    for alike in priced.chunk_by(|a, b| stake(a) == stake(b)) {
        assert!(alike.is_sorted_by_key(|it| kind(it)), "{report:#}");
        for alike in alike.chunk_by(|a, b| kind(a) == kind(b)) {
            let worth = alike.iter().filter_map(|it| worth(it));
            assert!(worth.is_sorted_by(|a, b| a >= b), "{report:#}");
        }
    }
    check_coverage(report);
    check_trials(report);
    let names: Vec<_> = list(&report["gpus"]).iter().map(|gpu| &gpu["id"]).collect();
    for recommendation in recommendations {
        assert!(
            list(&recommendation["gpus"]).iter().all(|gpu| names.contains(&gpu)),
            "{recommendation:#}"
        );
    }
    let savings = &report["savings"];
    if savings.is_null() {
        return;
    }
    let usd = |value: &Value| ["low", "expected", "high"].map(|one| nanos(&value[one]).unwrap());
    let waste = nanos(&savings["waste_usd"]).unwrap();
    assert_eq!(Some(waste), nanos(&report["cost"]["waste_usd"]));
    assert!(usd(&savings["utilization_usd"])[2] <= waste, "{savings:#}");
    let total = usd(&savings["total_usd"]);
    assert!(total.is_sorted() && total[2] <= nanos(&report["cost"]["total_usd"]).unwrap());
    for category in list(&savings["by_category"]) {
        let waste =
            &report["cost"]["waste_by_category_usd"][category["category"].as_str().unwrap()];
        assert!(usd(&category["usd"])[2] <= nanos(waste).unwrap(), "{category:#}");
    }
    // The last steps of all GPUs sum to the total.
    let last = list(&savings["gpus"]).iter().filter_map(|gpu| list(&gpu["steps"]).last());
    let last: i128 = last.map(|step| usd(&step["usd"])[1]).sum();
    assert_eq!(last, total[1], "{savings:#}");
    // A recommendation counts if and only if it is part of a step of one of its GPUs.
    for recommendation in recommendations {
        let own = |gpu: &&Value| list(&recommendation["gpus"]).contains(&gpu["id"]);
        let steps = list(&savings["gpus"]).iter().filter(own).flat_map(|gpu| list(&gpu["steps"]));
        let mut counted = steps.filter(|step| {
            let source = &step["source"];
            let is_it = source["code"] == recommendation["code"]
                && source["policy"] == recommendation["policy"];
            is_it && step["counted_fraction"]["high"].as_f64() > Some(0.0)
        });
        assert_eq!(recommendation["counted"], counted.next().is_some(), "{recommendation:#}");
    }
}
