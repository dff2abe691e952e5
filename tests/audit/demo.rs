//! The demo is deterministic to the byte, and its report finds the scripted problems.

use std::fs;

use serde_json::Value;

use crate::otlp;
use crate::phasemeter::Phasemeter;
use crate::picture;
use crate::report::{self, list, nanos};

fn demo(args: &[&str]) -> Value {
    let report = Phasemeter::new("demo").args(["--format", "json"]).args(args).report();
    report::check(&report);
    report
}

#[test]
fn demo_is_byte_identical_for_same_seed() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--format", "text"][..], &["--format", "json"], &["--seed", "7"]] {
        let run = || {
            let file = ["--otlp-file", "demo.jsonl"];
            let run = Phasemeter::new("demo").within(dir.path()).args(args).args(file).run();
            assert_eq!((run.status, run.err.as_str()), (0, ""));
            (run.out, fs::read_to_string(dir.path().join("demo.jsonl")).unwrap())
        };
        let (first, second) = (run(), run());
        assert!(first == second, "{args:?}");
    }
    let of = |seed| Phasemeter::new("demo").args(["--seed", seed]).run().out;
    assert_ne!(of("7"), of("8"));
    assert_eq!(Phasemeter::new("demo").run().out, of("1"), "the default seed is 1");
}

/// `make generate` draws the picture anew.
#[test]
fn readme_picture_shows_demo_report() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.svg");
    let svg = picture::svg(picture::beginning(&Phasemeter::new("demo").run().out));
    if std::env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(path, &svg).unwrap();
    }
    let drawn = fs::read_to_string(path).unwrap();
    assert!(drawn == svg, "docs/report.svg shows another report: run make generate");
}

/// Every problem of the fleet gets a recommendation that depends on its pattern, not its mean.
#[test]
fn demo_recommends_levers_by_pattern() {
    let report = demo(&[]);
    let gpus: Vec<_> = list(&report["gpus"]).iter().map(|gpu| &gpu["id"]).collect();
    let levers = |gpu: usize| {
        let mut own = Vec::new();
        for it in list(&report["recommendations"]) {
            if list(&it["gpus"]).contains(gpus[gpu]) && it["target"] != "rate" {
                own.push((it["target"].as_str().unwrap(), it["lever"].as_str().unwrap()));
            }
        }
        own
    };
    for starved in [0, 1] {
        assert_eq!(levers(starved)[0], ("starvation", "num_workers"));
    }
    // The same mean, steady.
    assert_eq!(levers(2)[0].0, "underload");
    // Several share it already, and one of them does not use its part.
    for lever in ["release_memory", "dynamic_batching"] {
        assert!(levers(3).contains(&("underload", lever)), "{:?}", levers(3));
    }
    let untouched =
        list(&report["recommendations"]).iter().find(|it| it["lever"] == "release_memory");
    let action = untouched.unwrap()["action"].as_str().unwrap();
    assert!(action.starts_with("Ask the owner of chat/canary-0 "), "{action}");
    // Whether BF16 is faster cannot be known without tensor activity.
    let needs = list(&report["needs"]);
    let tensor = needs.iter().find(|need| need["missing"] == "tensor.activity").unwrap();
    for bound in [4, 5] {
        assert!(levers(bound).is_empty() && list(&tensor["gpus"]).contains(gpus[bound]));
    }
    assert_eq!(levers(6)[0], ("idle", "mig"));
    let errors = list(&report["policies"]).iter().map(|policy| &policy["error"]);
    assert!(errors.clone().count() > 5 && errors.clone().all(Value::is_null), "{report:#}");
}

#[test]
fn demo_report_finds_scripted_problems() {
    let report = demo(&[]);
    let gpus = list(&report["gpus"]);
    assert_eq!(gpus.len(), 8);
    let kind = |gpu: usize| gpus[gpu]["pattern"]["kind"].as_str().unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    let mean = |gpu: usize| number(&gpus[gpu]["utilization"]["mean"]);
    let percent = |gpu: usize, phase: &str| number(&gpus[gpu]["phases"][phase]["percent"]);

    // Input-bound training is bouncing; its waste is starvation.
    for starved in [0, 1] {
        assert_eq!(kind(starved), "bouncing");
        let pattern = &gpus[starved]["pattern"];
        assert!((35.0..45.0).contains(&number(&pattern["period_seconds"])), "{pattern}");
        assert!((0.5..0.6).contains(&number(&pattern["duty_cycle"])), "{pattern}");
        let waste = &gpus[starved]["waste_by_category_usd"];
        assert!(nanos(&waste["starvation"]) > nanos(&waste["idle"]), "{waste}");
        assert!(nanos(&waste["starvation"]) > nanos(&waste["underload"]), "{waste}");
    }
    // The same mean held steadily; its waste is underload.
    assert_eq!(kind(2), "steady");
    assert!((mean(2) - mean(0)).abs() < 2.0, "{} and {}", mean(2), mean(0));
    assert!(percent(2, "underutilized") > 99.0);
    assert_eq!(gpus[2]["waste_by_category_usd"]["underload"], gpus[2]["waste_usd"]);
    // Inference at a third.
    assert!((30.0..36.0).contains(&mean(3)), "{}", mean(3));
    assert!(percent(3, "underutilized") > 99.0);
    // Bound by compute.
    for bound in [4, 5] {
        assert!(mean(bound) > 95.0 && percent(bound, "compute_bound") > 95.0);
    }
    // An idle notebook that holds memory.
    assert_eq!(kind(6), "idle");
    assert!(percent(6, "idle_held") > 95.0 && percent(6, "idle_free") < 0.1);
    assert!(number(&gpus[6]["memory"]["used_peak_bytes"]) > 3e10);
    // One was lost, then unobserved, then free; lost and unobserved time is not idle.
    let unobserved = &gpus[7]["unobserved_reasons"];
    let reason = |reason: &str| {
        let found = list(unobserved).iter().find(|entry| entry["reason"] == reason);
        number(&found.unwrap()["seconds"])
    };
    assert!((reason("gpu_lost") - 150.0).abs() < 2.0, "{unobserved}");
    assert!((reason("no_reading") - 540.0).abs() < 2.0, "{unobserved}");
    assert!((number(&gpus[7]["phases"]["idle_free"]["seconds"]) - 210.0).abs() < 2.0);
    let mut others = gpus[..7].iter();
    assert!(others.all(|gpu| gpu["unobserved_seconds"] == 0.0), "all others are always observed");
}

#[test]
fn demo_text_names_every_pattern() {
    let page = Phasemeter::new("demo").run().out;
    for label in ["bouncing", "steady", "idle, held", "free for others", "unobserved", "GPU lost"] {
        assert!(page.contains(label), "no {label:?} in\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    // The holders of its GPUs are a table of eight rows and three lines. Two lines state what decides trials.
    assert!(page.lines().count() <= 60 + 11 + 2, "{} lines:\n{page}", page.lines().count());
}

/// Three pods have replicas of a time-sliced GPU: two use it, the third never touched it. Another pod returns to a GPU
/// that was nobody's after it was lost.
#[test]
fn demo_divides_shared_gpu_among_its_pods() {
    let report = demo(&["--price", "3"]);
    let gpus = list(&report["gpus"]);
    let text = |it: &Value, field: &str| it[field].as_str().unwrap().to_owned();
    let holders = |gpu: usize| list(&gpus[gpu]["holders"]);
    let cents = |usd: &Value| (nanos(usd).unwrap() + 5_000_000) / 10_000_000;
    let shared: Vec<_> = holders(3)
        .iter()
        .map(|it| {
            let accounts = ["used_usd", "granted_unused_usd", "never_touched_usd"];
            (text(it, "name"), text(it, "method"), accounts.map(|name| cents(&it[name])))
        })
        .collect();
    let by_use = |name: &str, cents| (name.to_owned(), "by_use".to_owned(), cents);
    let expected = [
        by_use("chat/canary-0", [0, 0, 200]),
        by_use("chat/chat-0", [125, 75, 0]),
        by_use("chat/rerank-0", [75, 125, 0]),
    ];
    assert_eq!(shared, expected);
    assert_eq!(holders(3)[0]["first_touch"], Value::Null);
    // A pod with two GPUs, and one that returned with another UID.
    assert_eq!(holders(0)[0]["uid"], holders(1)[0]["uid"]);
    let ranking: Vec<_> = holders(7).iter().map(|it| (text(it, "name"), text(it, "uid"))).collect();
    assert_eq!((ranking.len(), &ranking[0].0), (2, &ranking[1].0));
    assert_ne!(ranking[0].1, ranking[1].1);
    assert_eq!(cents(&gpus[7]["nobody"]["cost_usd"]), 75, "15 minutes");
}

/// The page has a recommendation in a few lines, and all of it on request.
#[test]
fn recommendation_is_explained_by_its_code() {
    let explained =
        |code: &str| Phasemeter::new("demo").args([format!("--explain={code}")]).run().out;
    let report = demo(&[]);
    let all: Vec<_> = list(&report["recommendations"]).iter().collect();
    let [first, second, ..] = all[..] else { panic!("{report:#}") };
    let text = |it: &Value, field: &str| it[field].as_str().unwrap().to_owned();
    let page = explained(&text(first, "code"));
    assert_eq!(page.matches("\nWhy  ").count(), 1, "{page}");
    assert!(page.contains(&format!("code {}", text(first, "code"))), "{page}");
    assert!(!page.contains(&text(second, "title")), "{page}");
    let page = explained("none");
    let known = "Explain      no recommendation has the code 'none': ";
    assert!(page.contains(known) && page.contains(&text(second, "code")), "{page}");
    let page = Phasemeter::new("demo").args(["--explain"]).run().out;
    assert_eq!(page.matches("\nWhy  ").count(), all.len(), "{page}");
}

#[test]
fn demo_accepts_audit_options() {
    let report =
        demo(&["--price", "2", "--plan", "owned", "--work", "tokens=1000", "--experiment", "mine"]);
    let cost = &report["cost"];
    assert_eq!(cost["rate_usd_per_gpu_hour"], "2.000000000");
    assert_eq!(cost["hourly_usd"], "16.000000000");
    assert_eq!(
        (&cost["price"]["plan"], &report["experiment"]["id"]),
        (&"owned".into(), &"mine".into())
    );
    // GPUs that are paid for either way save no money, whatever is recommended.
    let saves = |it: &Value| nanos(&it["saving_usd"]["high"]) != Some(0);
    let recommendations = list(&report["recommendations"]);
    assert!(!recommendations.is_empty() && !recommendations.iter().any(saves));
    let total = nanos(&cost["total_usd"]).unwrap();
    let each = report["work"]["tokens"]["cost_each_usd"].as_str().unwrap();
    // The bill divided by 1000.
    assert_eq!(
        each.replace('.', "").trim_start_matches('0'),
        total.to_string().trim_end_matches('0')
    );

    let lower = demo(&["--thresholds", "5,40,60"]);
    let productive = |report: &Value| report["gpus"][2]["phases"]["productive"]["percent"].as_f64();
    assert!(productive(&lower) > Some(99.0), "51% is productive above 40%");
    let longer = demo(&["--stale-after", "600"]);
    let missed = |report: &Value| list(&report["gpus"][7]["unobserved_reasons"]).len();
    assert_eq!((missed(&lower), missed(&longer)), (2, 1), "the last reading covers the gap");

    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let dir = tempfile::tempdir().unwrap();
    let args = ["--traceparent", parent, "--otlp-file", "demo.jsonl"];
    assert_eq!(Phasemeter::new("demo").within(dir.path()).args(args).run().status, 0);
    let captured = otlp::read(&fs::read_to_string(dir.path().join("demo.jsonl")).unwrap());
    assert_eq!(captured.named("gpu session").len(), 8);
    assert_eq!(captured.named("experiment")[0].parent_span_id[0], 0xb7);
}
