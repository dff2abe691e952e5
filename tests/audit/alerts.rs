//! Alerts on a log: what opens and closes, in the report, as events and as exit status.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::phasemeter::Phasemeter;
use crate::report;

/// Two hours of two GPUs, a reading each 30 seconds: GPU 0 works at 30% for an hour and then at 80%,
/// GPU 1 at 100%. Both use 86% of their memory and 395 of 400 W.
fn log() -> String {
    let mut log =
        "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], \
                   temperature.gpu, power.draw [W], enforced.power.limit [W]\n"
            .to_owned();
    for tick in 0..=240 {
        let (hour, minute, second) = (tick / 120, tick / 2 % 60, tick % 2 * 30);
        let at = format!("2026/07/27 {hour:02}:{minute:02}:{second:02}.000");
        for gpu in 0..2 {
            let percent = if gpu == 1 {
                100
            } else if hour == 0 {
                30
            } else {
                80
            };
            log += &format!(
                "{at}, {gpu}, NVIDIA A100-SXM4-80GB, {percent} %, 70440 MiB, 81920 MiB, 60, 395.00 W, \
                 400.00 W\n"
            );
        }
    }
    log
}

fn audit(args: &[&str]) -> Phasemeter {
    Phasemeter::audit().args(["-", "--alerts", "optimization"]).args(args).stdin(log())
}

/// Rule, GPU, opened and closed of each alert.
fn opened(report: &Value) -> Vec<[&str; 4]> {
    let alerts = report["alerts"]["opened"].as_array().unwrap().iter();
    alerts
        .map(|alert| {
            ["rule", "gpu", "opened", "closed"].map(|key| match &alert[key] {
                Value::String(text) => text.trim_start_matches("optimization."),
                _ => "open",
            })
        })
        .collect()
}

#[test]
fn alerts_open_and_close_at_the_minute_of_the_window() {
    let report = audit(&["--alert-set", "high_memory.for=10m"]).report();
    report::check(&report);
    assert_eq!(
        opened(&report),
        [
            ["high_memory", "0", "2026-07-27T00:13:00Z", "open"],
            ["high_memory", "1", "2026-07-27T00:13:00Z", "open"],
            // Half of the window is observed; later 24 minutes at 30% and 6 at 80%.
            ["low_utilization", "0", "2026-07-27T00:15:00Z", "2026-07-27T01:06:00Z"],
            ["saturated", "1", "2026-07-27T01:03:00Z", "open"],
        ]
    );
    let alerts = &report["alerts"];
    assert_eq!(alerts["total"], 4);
    assert_eq!(alerts["opened"][2]["mean"], 30.0);
    assert_eq!(alerts["opened"][0]["since"], "2026-07-27T00:03:00Z");
    assert_eq!(alerts["rules"][0]["condition"], "mean utilization below 40% over 30m");
    assert_eq!(alerts["rules"][0]["evaluated_minutes"], 2 * 106);
    let skipped: Vec<_> =
        alerts["skipped"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    assert_eq!(skipped, ["optimization.power_near_limit"]);
}

#[test]
fn power_near_its_limit_is_an_alert_if_enabled() {
    let report = audit(&["--alert-set", "power_near_limit.enabled=true"]).report();
    let power = opened(&report).into_iter().filter(|alert| alert[0] == "power_near_limit");
    assert_eq!(power.count(), 2);
    let power = report["alerts"]["opened"].as_array().unwrap().iter();
    let mut power = power.filter(|alert| alert["rule"] == "optimization.power_near_limit");
    assert_eq!(power.next().unwrap()["mean"], 98.75);
}

/// An equal mean is neither below nor above: 360 of 400 W are 90%, 395 W are 98.8%.
#[test]
fn power_at_its_threshold_is_not_an_alert() {
    let opened_at = |watts: &str| {
        let log = log().replace("395.00 W", &format!("{watts}.00 W"));
        let args = ["-", "--alerts=optimization", "--alert-set=power_near_limit.enabled=true"];
        let report = Phasemeter::audit().args(args).stdin(log).report();
        opened(&report).iter().filter(|alert| alert[0] == "power_near_limit").count()
    };
    assert_eq!([opened_at("360"), opened_at("361"), opened_at("395")], [0, 2, 2]);
}

#[test]
fn report_without_rules_has_no_alerts() {
    let report = Phasemeter::audit().arg("-").stdin(log()).report();
    assert_eq!(report.get("alerts"), None);
}

#[test]
fn text_lists_alerts_and_rules_that_were_not_evaluated() {
    let run = |profile: &str| {
        let run = Phasemeter::new("audit").args(["-", "--alerts", profile]).stdin(log()).run();
        assert_eq!((run.status, run.err.as_str()), (0, ""));
        assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
        run.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let page = run("optimization");
    for expected in [
        "Alerts optimization.low_utilization on GPU 0 27 Jul 2026 00:15:00 – 01:06:00 UTC · mean 30%",
        "optimization.saturated on GPU 1 since 27 Jul 2026 01:03:00 UTC, open at the end · mean 100%",
        "Not checked optimization.high_memory: for has no default; set --alert-set \
         optimization.high_memory.for=10m",
    ] {
        assert!(page.contains(expected), "no {expected:?} in {page}");
    }
    let page = run("right-sizing");
    let expected = "right-sizing.low_sm_activity: half of a window of 1h was never observed";
    assert!(page.contains(expected), "{page}");
}

#[test]
fn fail_on_alert_exits_1_after_the_report() {
    let outcome = audit(&["--fail-on-alert"]).run();
    assert_eq!(outcome.status, 1, "{}", outcome.err);
    assert_eq!(outcome.err, "phasemeter: 2 alerts opened; see Alerts in the report\n");
    assert_eq!(outcome.json()["alerts"]["total"], 2);
    let calm = ["--fail-on-alert", "--alert-set", "low_utilization.threshold=20"];
    let calm = audit(&calm).args(["--alert-set", "saturated.enabled=false"]).run();
    assert_eq!((calm.status, calm.err.as_str()), (0, ""));
}

#[test]
fn alerts_are_events_in_the_trace_of_their_session() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.jsonl");
    let report = audit(&["--otlp-file"]).arg(&file).report();
    let lines = fs::read_to_string(&file).unwrap();
    let requests: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let records = requests.iter().filter_map(|request| request["resourceLogs"].as_array());
    let records = records.flatten().flat_map(|logs| logs["scopeLogs"].as_array().unwrap());
    let records = records.flat_map(|logs| logs["logRecords"].as_array().unwrap());
    let alerts: Vec<&Value> = records
        .filter(|it| it["eventName"].as_str().is_some_and(|it| it.starts_with("phasemeter.alert.")))
        .collect();
    let names: Vec<_> = alerts.iter().map(|it| it["eventName"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| **name == "phasemeter.alert.opened").count(), 2);
    assert_eq!(names.iter().filter(|name| **name == "phasemeter.alert.closed").count(), 1);
    let first = alerts[0];
    let attribute = |key: &str| {
        let attributes = first["attributes"].as_array().unwrap().iter();
        attributes.filter(|it| it["key"] == key).map(|it| it["value"].clone()).next()
    };
    assert_eq!(attribute("hw.id"), Some(json!({ "stringValue": "0" })));
    let rule = json!({ "stringValue": "optimization.low_utilization" });
    assert_eq!(attribute("phasemeter.alert.rule"), Some(rule));
    assert_eq!(attribute("phasemeter.alert.value"), Some(json!({ "doubleValue": 0.3 })));
    assert_eq!(attribute("phasemeter.alert.threshold"), Some(json!({ "doubleValue": 0.4 })));
    let body = "optimization.low_utilization: mean utilization below 40% over 30m, now 30%";
    assert_eq!(first["body"]["stringValue"], body);
    assert_eq!(first["traceId"], report["experiment"]["trace_id"]);
    assert_eq!(first["timeUnixNano"], "1785111300000000000");
}

#[test]
fn invalid_rules_are_rejected_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("own.toml", "[[rule]]\nname = \"x\"\nbrief = \"y\"\nmetric = \"heat\"\n");
    write("large.toml", &"#".repeat(300 << 10));
    let run = |args: &[&str]| {
        let args = args.iter().map(|arg| arg.replace('@', &dir.path().display().to_string()));
        Phasemeter::new("audit").arg("-").args(args).stdin(log()).run()
    };
    let error = |args: &[&str], status: i32, expected: &str| {
        let outcome = run(args);
        assert_eq!(outcome.status, status, "{outcome:?}");
        let line = outcome.error_line().replace(&format!("{}/", dir.path().display()), "");
        assert!(line.starts_with(expected), "{line}");
    };
    let unknown = "--alerts calm: cannot be read; expected a profile (analytics, optimization, \
                   right-sizing) or a file: ";
    error(&["--alerts", "calm"], 66, unknown);
    error(&["--alerts", "@/own.toml"], 78, "own.toml:1: invalid rules: missing field `window`");
    error(&["--alerts", "@/large.toml"], 78, "--alerts large.toml: larger than 256 KiB");
    let twice = ["--alerts", "analytics", "--alerts", "analytics"];
    error(&twice, 2, "--alerts: rule analytics.low_utilization is defined twice");
    let unused = ["--alerts", "analytics", "--alert-set", "hot.for=1m"];
    error(&unused, 2, "--alert-set hot.for=1m: no rule needs it; expected one of analytics.low");
    for args in [&["--alert-set", "hot.for=1m"][..], &["--fail-on-alert"]] {
        let outcome = run(args);
        assert_eq!(outcome.status, 2);
        assert!(outcome.err.contains("--alerts <PROFILE|FILE>"), "{}", outcome.err);
    }
}

#[test]
fn file_of_rules_is_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.toml");
    let rule = "[[rule]]\nname = \"busy\"\nbrief = \"It works\"\nmetric = \"utilization\"\n\
                above = 50\nwindow = \"10m\"\n";
    fs::write(&file, rule).unwrap();
    let run = |path: &Path| Phasemeter::audit().args(["-", "--alerts"]).arg(path).stdin(log());
    let report = run(&file).report();
    let expected = [
        ["busy", "1", "2026-07-27T00:05:00Z", "open"],
        // 6 minutes at 30% and 4 at 80% are a mean of 50%, which is not above it.
        ["busy", "0", "2026-07-27T01:05:00Z", "open"],
    ];
    assert_eq!(opened(&report), expected);
}
