//! The contract, through the bindings that authors use: what the host says arrives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

mod support;

use phasemeter_meter::savings::estimate::Estimate;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_rules::fault::Fault;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::lever::Lever;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::recommendation::Target;

fn mirror(settings: &str) -> Candidate {
    let settings = serde_json::from_str(settings).unwrap();
    Candidate { settings, ..Candidate::new("mirror.wasm", support::mirror()) }
}

/// Scenario: a policy that writes down all that it is shown gets a window that has everything.
/// Guarantee: every field arrives as it was, and what it answers as it answered.
#[test]
fn every_field_of_a_window_arrives() {
    let host = Host::new(Options::default()).unwrap();
    let settings = r#"{"nested": {"number": 2.5}, "texts": ["a", "b"]}"#;
    let policy = host.load(mirror(settings)).unwrap();
    assert_eq!(policy.kind(), Kind::Recommender);
    assert_eq!(policy.manifest().name, "mirror");
    assert_eq!(policy.manifest().version, "0.1.0");
    assert!(policy.quote(&support::request()).is_none(), "it is no pricer");

    let window = support::window(2, 4);
    let run = policy.recommend(&window).unwrap();
    println!("{:?}", run.usage);
    let advice = run.answer.unwrap();
    let [advice] = advice.as_slice() else { panic!("{advice:?}") };
    assert_eq!(advice.code, "mirror.seen");
    let target = Target::Waste(WasteCategory::Starvation);
    assert_eq!((advice.target, advice.lever), (target, "dali".parse().unwrap()));
    let saving = Estimate { low: 0.0, expected: 0.25, high: 1.0 };
    assert_eq!(advice.saving, saving.map(|value| Fraction::new(value).unwrap()));
    assert_eq!(advice.gpus, ["GPU-0", "GPU-1"]);
    let evidence: Vec<_> = advice.evidence.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let seen = "compute-bound 1000, idle-free 200, idle-unknown 0, memory.mean 0, \
                memory.points 0, power.mean 216.66666666666666, power.points 3, productive 700, \
                underutilized 600, unobserved 100, utilization.mean 0.3333333333333333, \
                utilization.points 3";
    assert_eq!(evidence.join(", "), seen);
    let seen = r#"flag=true nested.number=2.5 texts.0=a texts.1=b
1785110400000000000 1785114000000000000 true train-7 4bf92f3577b34da6a3ce929d0e0e4736 [("team", "vision")] 6 [("queue.depth", 3.0)]
GPU-0 NVIDIA H100 80GB HBM3 Some(85520809984) Some(700.0)
Account { seconds: 1000.0, effective-seconds: 500.0, cost: 1000000000, effective-cost: 500000000 }
Waste { starvation: 1000000000, idle: 500000000, occupancy: 250000000 } Some(Pattern { kind: PatternKind::Bouncing, period-seconds: Some(42.0), duty: Some(0.5) })
Some(Price { nano-usd-per-gpu-hour: 3600000000, plan: Some(Plan::OnDemand), provider: Some("aws"), region: None, instance-type: None, source: "the price book", day: None, estimated: false }) [("samples", 200000.0)] [("energy.joules", 1500000.0)]"#;
    assert_eq!(advice.rationale, seen);
    assert_eq!(run.log.lines.len(), 1);
}

/// Scenario: settings that the schema of the policy does not allow.
/// Guarantee: it is not taken into use, and everything wrong is told by its path.
#[test]
fn settings_are_checked_before_the_guest_sees_them() {
    let host = Host::new(Options::default()).unwrap();
    let fault = host.load(mirror(r#"{"nested": {"number": -1}, "flug": true}"#)).unwrap_err();
    let Fault::Settings(errors) = &fault else { panic!("{fault}") };
    let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let right = [
        "flug: no such setting; there are flag, nested, texts",
        "nested.number: -1 is not at least 0",
    ];
    assert_eq!(told, right);
}

/// Scenario: the page for authors.
/// Guarantee: it names every lever there is.
#[test]
fn the_page_for_authors_names_every_lever() {
    let page = std::fs::read_to_string(support::home().join("README.md")).unwrap();
    for lever in Lever::ALL {
        assert!(page.contains(&format!("`{lever}`")), "{lever} is missing");
    }
}
