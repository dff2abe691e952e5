//! Nodes that a balancer sends to another gateway, and back.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::dcgm::{START, page_of_host};
use crate::mock_backend::MockBackend;
use crate::otlp::{self, Captured};
use crate::process::{Gateway, client, rejection};
use crate::{GPU, NANO_USD, NANOS, SOON, metered};

/// GPUs of the same host, and one of another host.
const BESIDE: &str = "GPU-00000000-0000-4000-8000-000000000001";
const LOST: &str = "GPU-00000000-0000-4000-8000-000000000003";
const OTHER: &str = "GPU-00000000-0000-4000-8000-000000000002";

/// The last sums of a GPU by phase, in billionths.
fn sums(captured: &Captured, metric: &str, gpu: &str) -> BTreeMap<String, u64> {
    let last = captured.last(metric, gpu).into_iter();
    let last = last.map(|(phase, value)| (phase, (value * 1e9).round() as u64));
    last.filter(|(_, value)| *value > 0).collect()
}

fn nano_usd(usd: &Value) -> u64 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// Scenario: a host with three GPUs is away for five minutes, and for good after another five; one of its GPUs comes back
/// two minutes later, and one does not. Another host stays, and one of its scrapes is lost.
/// Guarantee: time in which the whole host is away is in no sum, at no cost, and a gap; its sums end at its last reading,
/// and do not fall. All other time without readings is billed as ever.
#[test]
fn time_of_a_host_that_is_away_is_in_no_sum() {
    let backend = MockBackend::start([]);
    let options = ["--routed", "--hold", "0.1", "--stale-after", "45"];
    let gateway = Gateway::start(&backend, &options);
    let client = client(&gateway.endpoint());
    for at in (0..=1_200).step_by(15) {
        let read =
            |gpu, host, percent| client.enqueue(page_of_host(gpu, host, START + at, percent));
        if matches!(at, 0..=300 | 600..=900) {
            read(GPU, "node-1", 50.0);
        }
        if matches!(at, 0..=300 | 720..=900) {
            read(BESIDE, "node-1", 50.0);
        }
        if at <= 300 {
            read(LOST, "node-1", 50.0);
        }
        if at != 315 {
            read(OTHER, "node-2", 95.0);
        }
    }
    assert!(client.flush(SOON).all_sent());
    let (status, report, log) = gateway.stop_with_log();
    assert!(status.success(), "{log}");
    let captured = metered(&backend);

    let expected = |observed: u64, unobserved: u64, phase: &str, unit: u64| {
        let all =
            [(phase.to_owned(), observed * unit), ("unobserved".to_owned(), unobserved * unit)];
        all.into_iter().filter(|(_, it)| *it > 0).collect::<BTreeMap<_, _>>()
    };
    for (gpu, observed, unobserved, phase) in [
        (GPU, 600, 0, "underutilized"),
        (BESIDE, 480, 120, "underutilized"),
        (LOST, 300, 300, "underutilized"),
        (OTHER, 1_200, 0, "compute_bound"),
    ] {
        let time = sums(&captured, "phasemeter.gpu.time", gpu);
        assert_eq!(time, expected(observed, unobserved, phase, NANOS), "{gpu}");
        let cost = sums(&captured, "phasemeter.gpu.cost", gpu);
        assert_eq!(cost, expected(observed, unobserved, phase, NANO_USD), "{gpu}");
        for (attributes, stream) in captured.streams("phasemeter.gpu.time") {
            if attributes["hw.id"] == gpu {
                let values: Vec<_> = stream.points.iter().map(|point| point.value).collect();
                assert!(values.is_sorted(), "{attributes:?}: {values:?}");
                assert!(stream.points.iter().all(|it| it.start == START * NANOS), "{attributes:?}");
            }
        }
        let reported =
            report["gpus"].as_array().unwrap().iter().find(|it| it["id"] == gpu).unwrap();
        assert_eq!(nano_usd(&reported["cost_usd"]), (observed + unobserved) * NANO_USD);
        let absent = if gpu == OTHER { 0.0 } else { 300.0 };
        assert_eq!(reported["absent_seconds"], absent, "{gpu}");
    }
    let gaps = captured.events.iter().filter(|it| it.event_name == "phasemeter.gpu.gap.found");
    let mut gaps: Vec<_> = gaps
        .map(|event| {
            let mut of = otlp::attributes(&event.attributes);
            (of.remove("hw.id").unwrap(), of.remove("phasemeter.gpu.gap.duration").unwrap())
        })
        .collect();
    gaps.sort();
    assert_eq!(
        gaps,
        [BESIDE, LOST, GPU]
            .map(|gpu| (gpu.to_owned(), "300".to_owned()))
            .into_iter()
            .collect::<Vec<_>>()
    );
    let notes = report.to_string();
    assert!(notes.contains("a host that is silent as a whole may have another gateway"), "{notes}");
    assert!(!notes.contains("--missing=unobserved bills them"), "{notes}");
}

/// A list and a balancer divide differently, and `--missing` decides what a pause is.
#[test]
fn routed_excludes_lists_and_missing() {
    for options in
        [&["--routed", "--missing=absent"][..], &["--routed", "--replicas=a", "--replica=a"]]
    {
        let (status, log) = rejection("http://127.0.0.1:9", options);
        assert_eq!(status, Some(2), "{log}");
    }
}
