//! The contract between the host and a guest built with `wit-bindgen`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod support;

use phasemeter_meter::waste::WasteCategory;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::lever::Lever;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::recommendation::{Effort, RecommendationKind, Target};
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;

fn host() -> Host {
    Host::new(Options { limits: support::patient(), ..Options::default() }).unwrap()
}

fn mirror(settings: &str) -> Candidate {
    let settings = serde_json::from_str(settings).unwrap();
    Candidate { settings, ..Candidate::new("mirror.wasm", support::mirror()) }
}

/// Scenario: a policy that returns all of its input as text is evaluated on a window with every
/// field set.
/// Guarantee: every field of the input and of the output arrives unchanged.
#[test]
fn window_and_recommendation_fields_arrive_unchanged() {
    let host = host();
    let settings = r#"{"nested": {"number": 2.5}, "texts": ["a", "b"]}"#;
    let policy = host.load(mirror(settings)).unwrap();
    assert_eq!(policy.kind(), Kind::Recommender);
    assert_eq!(policy.manifest().name, "mirror");
    assert_eq!(policy.manifest().version, "0.1.0");
    assert_eq!(format!("{policy:?}"), format!("Policy(mirror 0.1.0 {})", policy.digest()));
    assert!(policy.quote(&support::request()).is_none(), "a recommender has no quotes");

    let window = support::window(2, 4);
    let evaluation = policy.recommend(&window).unwrap();
    println!("{:?}", evaluation.usage);
    let response = evaluation.result.unwrap();
    let [recommendation, of_gpu] = response.recommendations.as_slice() else {
        panic!("{response:?}")
    };
    let [need] = response.needs.as_slice() else { panic!("{response:?}") };
    assert_eq!((&*need.missing, &*need.reason), ("power.draw", "What it would tell"));
    assert_eq!(need.gpus, ["GPU-0"]);
    let kind = (recommendation.kind, recommendation.effort, recommendation.reversible);
    assert_eq!(kind, (RecommendationKind::Risk, Effort::High, true));
    let remediation = recommendation.remediation.as_ref().unwrap();
    assert_eq!(remediation.kind, "k8s.scale");
    assert_eq!(remediation.parameters.get("replicas").map(String::as_str), Some("2"));
    assert_eq!(recommendation.code, "mirror.input");
    let target = Target::Waste(WasteCategory::Starvation);
    assert_eq!((recommendation.target, recommendation.lever), (target, "dali".parse().unwrap()));
    let saving = Estimate { low: 0.0, expected: 0.25, high: 1.0 };
    assert_eq!(recommendation.saving, saving.map(|value| Fraction::new(value).unwrap()));
    assert_eq!(recommendation.gpus, ["GPU-0", "GPU-1"]);
    let evidence: Vec<_> = recommendation
        .evidence
        .iter()
        .map(|(k, it)| format!("{k} {} {}", it.value, it.unit))
        .collect();
    let expected = "compute-bound 1000 s, idle-free 200 s, idle-unknown 0 s, memory.mean 0 1, \
                memory.points 0 {point}, power.mean 216.66666666666666 1, power.points 3 {point}, \
                productive 700 s, underutilized 600 s, unobserved 100 s, \
                utilization.mean 0.3333333333333333 1, utilization.points 3 {point}";
    assert_eq!(evidence.join(", "), expected);
    let expected = r#"flag=true nested.number=2.5 texts.0=a texts.1=b
1785110400000000000 1785114000000000000 true train-7 4bf92f3577b34da6a3ce929d0e0e4736 [("team", "vision")] Some(7200) 6 [("queue.depth", 3.0)]
GPU-0 NVIDIA H100 80GB HBM3 Some(85520809984) Some(700.0)
Account { seconds: 1000.0, effective-seconds: 500.0, cost: 1000000000, utilized-cost: 500000000 }
Waste { starvation: 1000000000, idle: 500000000, underload: 250000000 } Some(Pattern { kind: PatternKind::Bouncing, period-seconds: Some(42.0), duty-cycle: Some(0.5) })
Some(Price { nano-usd-per-gpu-hour: 3600000000, plan: Some(Plan::OnDemand), provider: Some("aws"), region: None, instance-type: None, source: "the price book", as-of: Some("2026-07-20"), estimated: false }) [("samples", 200000.0)] [("energy.joules", 1500000.0)]
[("host.name", "node-1")] Workload::Training true
Some(1.0) Quiet { seconds: 1000.0, held-seconds: 800.0 } 40 610.0 700.0 610.0 0.0 Quiet { seconds: 610.0, held-seconds: 0.0 } Quiet { seconds: 5.0, held-seconds: 5.0 } Pauses { count: 2, quiet: Quiet { seconds: 90.0, held-seconds: 80.0 }, after-unobserved: 1, length-deviation: 1.0, period-seconds: Some(100.0), period-deviation: 1.0, memory-bytes: Some(1048576.0), memory-at-work-bytes: Some(2097152.0) }
168 Some(HourOfWeek { observed-seconds: 60.0, idle-seconds: 6.0 })"#;
    assert_eq!(recommendation.rationale, expected);
    let expected = r#"Sensors { sm-clock-mhz: Some(1410.5), max-sm-clock-mhz: Some(1980.0), temperature-celsius: Some(61.25), max-temperature-celsius: Some(74.0), busy-power: Some(Percentiles { p5: 150.5, p50: 301.0, p95: 451.5, max: 602.0 }), memory-in-use: Some(Percentiles { p5: 10000000000.0, p50: 20000000000.0, p95: 30000000000.0, max: 40000000000.0 }), sm-activity: Some(0.625), tensor-activity: Some(0.25), dram-activity: Some(0.125), throttling: [Throttling { reason: ThrottleReason::PowerCap, share: 0.75 }, Throttling { reason: ThrottleReason::HardwareThermal, share: 0.0 }], xids: [Xid { code: 63, count: 2 }, Xid { code: 79, count: 1 }] }
[Holder { name: "ml/train-0", kind: HolderKind::Container, namespace: Some("ml"), pod: Some("train-0"), container: Some("main"), uid: Some("cf1f6c4b-6ff4-4a5a-8fd1-1f1d3c6f8c1e"), job: None, is-current: true, granted: Some(0.25), first-touch: Some(1785110400000000000), used: HolderAccount { seconds: 600.0, cost: 1000000 }, granted-unused: HolderAccount { seconds: 290.0, cost: 1000000 }, never-touched: HolderAccount { seconds: 10.0, cost: 1000000 }, method: AllocationMethod::ByUse }]"#;
    assert_eq!(of_gpu.rationale, expected);
    let expected = r#"[Offer { model: "NVIDIA L4", gpus: 1, memory-bytes: Some(25769803776), price: Price { nano-usd-per-gpu-hour: 805000000, plan: Some(Plan::OnDemand), provider: Some("aws"), region: Some("us-east-1"), instance-type: Some("g6.xlarge"), source: "the price book", as-of: Some("2026-07-20"), estimated: false } }]
[Previous { policy: "sharing", code: "sharing.mig", gpus: ["GPU-0"], first-given: 1785110400000000000, still-given: true }]
[Load { gpus: ["GPU-0"], distributions: [LoadDistribution { mean-seconds: 1, buckets: [LoadBucket { percent: 0, seconds: 5.0 }, LoadBucket { percent: 98, seconds: 55.0 }] }, LoadDistribution { mean-seconds: 10, buckets: [LoadBucket { percent: 0, seconds: 5.0 }, LoadBucket { percent: 98, seconds: 55.0 }] }, LoadDistribution { mean-seconds: 60, buckets: [LoadBucket { percent: 0, seconds: 5.0 }, LoadBucket { percent: 98, seconds: 55.0 }] }], week: [LoadHour { hour: 17, buckets: [LoadBucket { percent: 52, seconds: 60.0 }] }] }]"#;
    assert_eq!(recommendation.action, expected);
    assert_eq!(evaluation.log.lines.len(), 1);
}

/// Scenario: settings that the policy's schema does not allow.
/// Guarantee: the policy is rejected, and every problem is reported with its path.
#[test]
fn invalid_settings_reject_policy() {
    let host = host();
    let error = host.load(mirror(r#"{"nested": {"number": -1}, "flug": true}"#)).unwrap_err();
    let PolicyError::Settings(errors) = &error else { panic!("{error}") };
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let expected = [
        "flug: unknown setting: expected one of flag, nested, texts",
        "nested.number: invalid value -1: expected at least 0",
    ];
    assert_eq!(errors, expected);
}

/// Guarantee: the policy guide, `README.md`, lists every lever.
#[test]
fn policy_guide_lists_every_lever() {
    let guide = std::fs::read_to_string(support::home().join("README.md")).unwrap();
    for lever in Lever::ALL {
        assert!(guide.contains(&format!("`{lever}`")), "{lever} is missing");
    }
}
