//! Policies run by an audit: recommendations, savings and quotes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::logs::Plan;
use crate::otlp;
use crate::phasemeter::Phasemeter;
use crate::policies::hostile;
use crate::policy_files::{
    PolicyFiles, RATE, UNDERLOAD, acting, log, quoting, recommending, recommending_with,
};
use crate::report::{self, list};

/// Scenario: a GPU trains at a steady 60%, in a report with the default bounds of phases and with other ones.
/// Guarantee: what is recommended follows the bounds, as the accounts do.
#[test]
fn default_policies_use_the_bounds_of_phases_of_the_report() {
    let mut log = String::from(
        "timestamp, uuid, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n",
    );
    for second in 0..3_600 {
        let (minute, memory) = (second / 60, 30_000 + second % 7 * 100);
        log += &format!(
            "2026/07/27 00:{minute:02}:{:02}.000, GPU-a, NVIDIA H100 80GB HBM3, 60 %, {memory} MiB, 81559 MiB\n",
            second % 60
        );
    }
    let codes = |thresholds: &str| -> Vec<String> {
        let report = Phasemeter::audit()
            .env("OTEL_RESOURCE_ATTRIBUTES", "phasemeter.workload=training")
            .args(["--price", "8", "--thresholds", thresholds, "-"])
            .stdin(log.clone())
            .report();
        let all = list(&report["recommendations"]).iter();
        all.map(|it| it["code"].as_str().unwrap().to_owned()).collect()
    };
    let has = |codes: &[String], code: &str| codes.iter().any(|it| it == code);
    let (usual, own) = (codes("10,70,90"), codes("10,50,80"));
    assert!(has(&usual, "sizing.batch") && !has(&usual, "sizing.headroom"), "{usual:?}");
    assert!(has(&own, "sizing.headroom") && !has(&own, "sizing.batch"), "{own:?}");
}

/// 40% by better use and 60% off the rate combine to 76%, not 100%.
#[test]
fn utilization_and_rate_savings_multiply() {
    let files = PolicyFiles::new(&[
        ("use", recommending("use", UNDERLOAD, [0.4, 0.4, 0.4])),
        ("rate", recommending("rate", RATE, [0.6, 0.6, 0.6])),
    ]);
    let run = files.audit(&["use", "rate"]).args(["--price", "8"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(savings["utilization_fraction"]["expected"], 0.4);
    assert_eq!(savings["rate_fraction"]["expected"], 0.6);
    assert_eq!(savings["total_fraction"]["expected"], 0.76);
    assert_eq!(savings["total_usd"]["expected"], "7.600000000");
    assert!(savings["monthly_usd"].is_null(), "less than a day shows no month");
    assert_eq!(savings["naive_sum_fraction"], 1.0);
    assert_eq!(savings["capped"], false);
    let codes: Vec<_> = list(&report["recommendations"]).iter().map(|it| &it["policy"]).collect();
    assert_eq!(codes, ["use", "rate"], "better use comes before a lower rate");
}

/// A guess, and a saving of which nothing is expected, are what is missing and no recommendations.
#[test]
fn doubtful_recommendation_is_missing_evidence() {
    let files = PolicyFiles::new(&[
        ("guess", recommending_with("guess", UNDERLOAD, [0.1, 0.2, 0.3], 0.19)),
        ("nothing", recommending_with("nothing", UNDERLOAD, [0.0, 0.0, 0.3], 0.9)),
        ("sure", recommending_with("sure", UNDERLOAD, [0.1, 0.15, 0.2], 0.2)),
    ]);
    let run = files.audit(&["guess", "nothing", "sure"]).args(["--price", "8"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    let given: Vec<_> = list(&report["recommendations"]).iter().map(|it| &it["policy"]).collect();
    assert_eq!(given, ["sure"]);
    assert_eq!(report["savings"]["total_fraction"]["expected"], 0.15);
    let needs: Vec<_> = list(&report["needs"]).iter().map(|it| it["reason"].to_string()).collect();
    let [guess, nothing] = &needs[..] else { panic!("{needs:?}") };
    assert!(guess.contains("guess is 19% confident"), "{guess}");
    assert!(nothing.contains("saves 30% at most"), "{nothing}");
}

/// Savings are capped at the waste; of two recommendations for one category the larger counts.
#[test]
fn savings_are_capped_and_counted_once() {
    let files = PolicyFiles::new(&[
        ("large", recommending("large", UNDERLOAD, [0.1, 0.9, 1.0])),
        ("small", recommending("small", UNDERLOAD, [0.1, 0.2, 0.3])),
    ]);
    let run = files.audit(&["small", "large"]).args(["--price", "8"]).stdin(log(80));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(savings["total_fraction"]["expected"], 0.2, "at 80% no more than a fifth is wasted");
    assert_eq!(savings["capped"], true);
    let counted: Vec<_> =
        list(&report["recommendations"]).iter().map(|it| &it["counted"]).collect();
    assert_eq!(counted, [true, false]);
    assert_eq!(savings["by_category"][2]["sources"][0]["policy"], "large");
}

#[test]
fn quote_overrides_price_book_and_yields_to_price_option() {
    let files = PolicyFiles::new(&[("quoting", quoting()), ("loop", hostile("loop-quote"))]);
    let priced = |names: &[&str], args: &[&str]| {
        let report = files.audit(names).args(args).stdin(log(60)).report();
        report::check(&report);
        report
    };
    let quoted = priced(&["quoting"], &[]);
    assert_eq!(quoted["cost"]["rate_usd_per_gpu_hour"], "2.000000000");
    let price = &quoted["cost"]["price"];
    assert_eq!(price["source"], "contract 4711, quoted by evil");
    assert_eq!((&price["plan"], &price["as_of"]), (&"reserved_1y".into(), &"2026-07-20".into()));
    assert_eq!(quoted["policies"][0]["kind"], "pricer");
    assert!(quoted["policies"][0]["fuel"].as_u64() > Some(0));

    let assumed = quoted["assumptions"].to_string();
    let ended = "quoted by evil expired at 2026-07-27T00:30:00Z and remained in use";
    // The same quote again is invalid: a quote must end after the time of the request.
    assert_eq!(quoted["policies"][0]["error"]["kind"], "invalid");
    assert!(assumed.contains(ended), "{assumed}");

    let given = priced(&["quoting"], &["--price", "3"]);
    assert_eq!(given["cost"]["rate_usd_per_gpu_hour"], "3.000000000");
    assert_eq!(given["policies"][0]["fuel"], 0, "not evaluated");

    let book = priced(&[], &[]);
    let failed = priced(&["loop"], &["--policy-limit", "fuel=1000000"]);
    assert_eq!(failed["policies"][0]["error"]["kind"], "out_of_fuel");
    assert_eq!(failed["cost"], book["cost"], "falls back to the price book");
}

#[test]
fn audit_without_policies_has_no_recommendations() {
    let report = PolicyFiles::new(&[]).audit(&[]).stdin(log(60)).report();
    report::check(&report);
    assert_eq!(list(&report["policies"]).len() + list(&report["recommendations"]).len(), 0);
    assert_eq!(report["savings"]["total_usd"]["high"], "0.000000000");
    let text = PolicyFiles::new(&[]);
    let text = Phasemeter::new("audit").within(&text.path("")).args(["-", "--no-default-policies"]);
    let text = text.stdin(log(60)).run();
    assert!(!text.out.contains("Savings") && !text.out.contains("Saves"), "{}", text.out);
}

/// Recommendations are events in the trace of the experiment.
#[test]
fn recommendations_are_exported_as_events() {
    let files = PolicyFiles::new(&[("good", acting()), ("bad", hostile("trap-unreachable"))]);
    let run = files.audit(&["good", "bad"]).args(["--otlp-file", "otlp.jsonl"]);
    let report = run.stdin(log(60)).report();
    let captured = otlp::read(&fs::read_to_string(files.path("otlp.jsonl")).unwrap());
    let events: Vec<_> = captured.events.iter().map(|event| event.event_name.as_str()).collect();
    assert_eq!(events, ["phasemeter.recommendation.made", "phasemeter.policy.error"]);
    for event in &captured.events {
        let trace: String = event.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(report["experiment"]["trace_id"], trace);
        assert!(!event.span_id.is_empty());
    }
    let attributes = otlp::attributes(&captured.events[0].attributes);
    assert_eq!(attributes["phasemeter.recommendation.code"], "test.action");
    assert_eq!(attributes["phasemeter.recommendation.remediation.kind"], "nvidia.mig");
    assert_eq!(attributes["phasemeter.recommendation.remediation.parameter.profile"], "1g.10gb");
    assert_eq!(attributes["phasemeter.recommendation.evidence.idle_gpus.value"], "3");
    assert_eq!(attributes["phasemeter.recommendation.evidence.idle_gpus.unit"], "GPUs");
    assert_eq!(attributes["phasemeter.recommendation.saving.expected"], "0.2");
    assert!(attributes["phasemeter.gpu.ids"].contains("GPU-0"), "{attributes:?}");
    let attributes = otlp::attributes(&captured.events[1].attributes);
    assert_eq!(attributes["error.type"], "trap");
}

/// Of GPUs that are paid for either way, a saving is capacity, in the report and in its event.
#[test]
fn savings_on_purchased_gpus_are_capacity() {
    let kind = |plan: &str| {
        let files = PolicyFiles::new(&[("use", recommending("use", UNDERLOAD, [0.4, 0.4, 0.4]))]);
        let run = files.audit(&["use"]).args(["--price", "8", "--plan", plan]);
        let report = run.args(["--otlp-file", "otlp.jsonl"]).stdin(log(60)).report();
        let captured = otlp::read(&fs::read_to_string(files.path("otlp.jsonl")).unwrap());
        let event = otlp::attributes(&captured.events[0].attributes);
        let kind = report["recommendations"][0]["kind"].as_str().unwrap().to_owned();
        assert_eq!(event["phasemeter.recommendation.kind"], kind);
        let saves = report["recommendations"][0]["saving_usd"]["high"] != "0.000000000";
        (kind, saves, report["recommendations"][0]["saving_fraction"]["high"].as_f64())
    };
    for plan in ["owned", "reserved_1y", "reserved_3y"] {
        assert_eq!(kind(plan), ("capacity".to_owned(), false, Some(0.4)));
    }
    for plan in ["on_demand", "spot"] {
        assert_eq!(kind(plan), ("saving".to_owned(), true, Some(0.4)));
    }
}

/// Policies receive the bounds of phases that the accounts follow.
#[test]
fn windows_have_the_thresholds_of_the_run() {
    let files = PolicyFiles::new(&[]);
    let plan = Plan { seed: 72, gpus: 2, every: 1_000, ticks: 30, ..Plan::default() };
    let bounds = |args: &[&str]| {
        let run = files.audit(&[]).args(["--dump-windows", "w.window.json"]).args(args);
        run.stdin(plan.text()).report();
        let window: Value =
            serde_json::from_slice(&fs::read(files.path("w.window.json")).unwrap()).unwrap();
        fs::remove_file(files.path("w.window.json")).unwrap();
        let metric =
            |phase: &str| window["window"]["metrics"][format!("threshold.{phase}")].as_f64();
        ["idle", "productive", "compute_bound"].map(metric)
    };
    assert_eq!(bounds(&[]), [Some(0.1), Some(0.7), Some(0.9)]);
    assert_eq!(bounds(&["--thresholds", "2.5,40,95"]), [Some(0.025), Some(0.4), Some(0.95)]);
}

/// Dumped policy windows match the report.
#[test]
fn dumped_windows_match_report() {
    let files = PolicyFiles::new(&[]);
    let plan = Plan { seed: 71, gpus: 3, every: 1_000, ticks: 1_500, ..Plan::default() };
    let run = |path: &str| {
        let run = files.audit(&[]).args(["--price", "8", "--dump-windows", path]);
        run.stdin(plan.text()).report()
    };
    fs::create_dir(files.path("windows")).unwrap();
    let (report, _) = (run("one.window.json"), run("windows"));
    let read = |path: &Path| fs::read(files.path("").join(path)).unwrap();
    let window = read(Path::new("one.window.json"));
    assert_eq!(window, read(Path::new("windows/0001.window.json")));
    let window: Value = serde_json::from_slice(&window).unwrap();
    let window = &window["window"];
    assert_eq!(window["is_final"], true);
    assert_eq!(window["trace_id"], report["experiment"]["trace_id"]);
    let gpus = list(&window["gpus"]).iter().zip(list(&report["gpus"]));
    for (dumped, reported) in gpus {
        assert_eq!(dumped["id"], reported["id"]);
        let accounts = dumped["accounts"].as_object().unwrap().values();
        let cost: i64 = accounts.map(|account| account["cost_nano_usd"].as_i64().unwrap()).sum();
        assert_eq!(Some(i128::from(cost)), report::nanos(&reported["cost_usd"]));
        let points = list(&dumped["utilization"]);
        assert!((300..=600).contains(&points.len()), "{}", points.len());
        let known: Vec<_> = points.iter().filter_map(Value::as_f64).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64 * 100.0;
        let reported_mean = reported["utilization"]["mean"].as_f64().unwrap();
        assert!((mean - reported_mean).abs() < 1.0, "{mean} ≠ {reported_mean}");
    }
    let unwritten = files.audit(&[]).args(["--dump-windows", "gone/window.json"]);
    let unwritten = unwritten.stdin(plan.text()).run();
    assert_eq!(unwritten.status, 74, "{unwritten:?}");
}
