//! GPUs that are no longer listed: while the gateway runs, and at its end, where it reports as an audit does.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_oracle::fleet::{self, FleetGpu};
use phasemeter_otlp::{EncodedRequest, OtlpFile, Request};
use prost::Message;
use serde_json::Value;

use crate::dcgm::{START, cost_of_agent, page_of_host, page_with, usd};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client, phasemeter};
use crate::{GPU, NANO_USD, SOON, metered};

/// Another GPU of the host of [`GPU`].
const OTHER: &str = "GPU-00000000-7a6b-4e5b-9d3e-1f2a3b4c5d6e";

/// The pages of a fleet in time order.
fn pages(gpus: &[FleetGpu]) -> Vec<EncodedRequest> {
    let each = gpus.iter().flat_map(|gpu| gpu.rows.iter().map(move |row| (row, gpu)));
    let mut each: Vec<_> = each.collect();
    each.sort_by_key(|(row, _)| row.at);
    let page = |(row, gpu): (&phasemeter_oracle::Row, &FleetGpu)| {
        let percent = row.ppm.unwrap() as f64 / 10_000.0;
        page_of_host(&gpu.uuid, &gpu.host, row.at / 1_000, percent)
    };
    each.into_iter().map(page).collect()
}

/// The report of an audit of these requests.
fn audit(requests: &[EncodedRequest], options: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics.jsonl");
    let mut file = OtlpFile::new(fs::File::create(&path).unwrap());
    for request in requests {
        let request = Request::Metrics(Message::decode(&request.body()[..]).unwrap());
        file.write(&request).unwrap();
    }
    file.finish().unwrap();
    let mut command = phasemeter(&MockBackend::start([]));
    command.args(["audit", "--price", "3.6", "--no-default-policies", "--format", "json"]);
    let output = command.args(options).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What is metered of each GPU, by UUID.
fn metered_gpus(report: &Value) -> Vec<Vec<&Value>> {
    let fields = [
        "uuid",
        "start",
        "end",
        "span_seconds",
        "cost_usd",
        "unobserved_usd",
        "unobserved_reasons",
        "absent_seconds",
        "absent_usd",
        "phases",
        "periods",
    ];
    let gpus = report["gpus"].as_array().unwrap().iter();
    let mut gpus: Vec<Vec<&Value>> =
        gpus.map(|gpu| fields.iter().map(|field| &gpu[field]).collect()).collect();
    gpus.sort_by_key(|gpu| gpu[0].to_string());
    gpus
}

fn send(gateway: &Gateway, requests: Vec<EncodedRequest>) {
    let client = client(&gateway.endpoint());
    for request in requests {
        client.enqueue(request);
    }
    assert!(client.flush(SOON).all_sent());
}

/// Scenario: the metrics of random fleets whose hosts and GPUs come, go and return.
/// Guarantee: a gateway reports the seconds and nano-dollars of an audit of the same metrics, and both those of
/// the oracle, even if missing time is all billed or not at all.
#[test]
fn report_is_that_of_an_audit_of_the_same_metrics() {
    for (seed, options) in [
        (3, &[][..]),
        (5, &[]),
        (8, &["--missing", "unobserved"]),
        (9, &["--missing", "absent"]),
        (13, &[]),
    ] {
        let gpus = fleet::random(seed, START * 1_000);
        let requests = pages(&gpus);
        let expected = audit(&requests, options);
        let gateway = Gateway::start(&MockBackend::start([]), options);
        send(&gateway, requests);
        let (_, report) = gateway.stop();
        assert_eq!(metered_gpus(&report), metered_gpus(&expected), "seed {seed}");
        if options.is_empty() {
            let bill: u64 = fleet::expected(&gpus).iter().flat_map(|expected| expected.time).sum();
            assert_eq!(report["cost"]["total_usd"], usd(bill * 1_000), "seed {seed}");
        }
    }
}

/// Scenario: a GPU is no longer listed while another one of its host goes on, and returns after an hour.
/// Guarantee: its time is exported as unobserved while it is missing, ten minutes late; no sum ever falls; the
/// report is that of an audit.
#[test]
fn time_of_unlisted_gpu_is_exported_while_it_is_missing() {
    let backend = MockBackend::start([]);
    let options = ["--hold", "0.1", "--stale-after", "45"];
    let gateway = Gateway::start(&backend, &options);
    let listed = |gpu: &'static str, from: u64, to: u64| {
        (from..=to).step_by(15).map(move |at| (at, page_of_host(gpu, "node-1", START + at, 50.0)))
    };
    let both = |from, to| {
        let mut all: Vec<_> = listed(OTHER, from, to).chain(listed(GPU, from, to)).collect();
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, page)| page).collect::<Vec<_>>()
    };
    let alone: Vec<_> = listed(OTHER, 315, 3_585).map(|(_, page)| page).collect();
    let mut sent = both(0, 300);
    send(&gateway, both(0, 300));
    sent.extend(alone.iter().cloned());
    for part in alone.chunks(40) {
        send(&gateway, part.to_vec());
        // Readings are held for a moment.
        thread::sleep(Duration::from_millis(300));
    }
    // The whole minutes up to ten minutes before the last reading, less what the last one covers.
    let most = ((3_585 - 600) / 60 * 60 - 345) * NANO_USD;
    let began = Instant::now();
    loop {
        let cost = metered(&backend).last("phasemeter.gpu.cost", GPU);
        let cost = cost.get("unobserved").map_or(0, |usd| (usd * 1e9).round() as u64);
        assert!(cost <= most, "{cost}");
        if cost > 0 {
            break;
        }
        assert!(began.elapsed() < SOON, "it is not exported");
        thread::sleep(Duration::from_millis(50));
    }
    sent.extend(both(3_600, 3_900));
    send(&gateway, both(3_600, 3_900));
    let (_, report) = gateway.stop();
    let expected = audit(&sent, &["--stale-after", "45"]);
    assert_eq!(metered_gpus(&report), metered_gpus(&expected));
    for stream in metered(&backend).streams("phasemeter.gpu.cost").values() {
        assert!(stream.points.is_sorted_by(|a, b| a.value <= b.value), "{stream:?}");
    }
}

/// Scenario: a host stops for an hour, and returns with the same GPU under another `host.id`; then it is silent for an
/// hour under that ID.
/// Guarantee: the first hour is absent, and the second unobserved, in a gateway as in an audit; `--missing=unobserved`
/// bills both.
#[test]
fn time_between_instances_is_not_billed() {
    let page = |instance: &str, second: u64| {
        let labels = [("host.name", "node-1"), ("host.id", instance)];
        page_with(GPU, "node-1", &labels, START + second, 50.0)
    };
    let mut requests = Vec::new();
    for (instance, start) in [("i-1", 0), ("i-2", 3_600), ("i-2", 7_200)] {
        requests.extend((0..=10).map(|tick| page(instance, start + 15 * tick)));
    }
    // Each part is 150 s long, and its last reading covers further 45 s unless it is that of the run.
    let (span, pause) = (7_200_u32 + 150, 3_600 - 150 - 45);
    for (options, absent) in [(&[][..], pause), (&["--missing=unobserved"], 0)] {
        let options = [options, &["--stale-after", "45"]].concat();
        let expected = audit(&requests, &options);
        let gateway = Gateway::start(&MockBackend::start([]), &options);
        send(&gateway, requests.clone());
        let (_, report) = gateway.stop();
        assert_eq!(metered_gpus(&report), metered_gpus(&expected), "{options:?}");
        let gpu = &report["gpus"][0];
        assert_eq!(gpu["span_seconds"], f64::from(span), "{gpu:#}");
        assert_eq!(gpu["unobserved_seconds"], f64::from(2 * pause));
        assert_eq!(gpu["absent_seconds"], f64::from(absent));
        assert_eq!(gpu["absent_usd"], usd(u64::from(absent) * NANO_USD));
        assert_eq!(gpu["cost_usd"], usd(u64::from(span - absent) * NANO_USD));
        let notes = report["sampling"].to_string();
        let is_noted = notes.contains("1 pause between readings, 3405.0 s in all, is not billed");
        assert_eq!(is_noted, absent > 0, "{notes}");
    }
}

/// Scenario: an agent meters a GPU from 165 s on, to the end of a run in which another GPU of its host goes on.
/// Guarantee: its span ends where the agent's begins.
#[test]
fn gpu_that_an_agent_takes_over_ends_there() {
    let gateway = Gateway::start(&MockBackend::start([]), &[]);
    let mut requests = Vec::new();
    for at in (0..=1_800).step_by(15) {
        // What the agent has billed of its last minute is not known yet.
        if at < 1_740 {
            requests.push(page_of_host(GPU, "node-1", START + at, 50.0));
        }
        requests.push(page_of_host(OTHER, "node-1", START + at, 50.0));
    }
    requests.push(cost_of_agent(GPU, START + 165, START + 1_740, "an agent"));
    send(&gateway, requests);
    let (_, report) = gateway.stop();
    let gpus = report["gpus"].as_array().unwrap();
    let gpu = gpus.iter().find(|gpu| gpu["uuid"] == GPU).unwrap();
    assert_eq!(gpu["span_seconds"], 165.0, "{gpu:#}");
    assert_eq!(gpu["cost_usd"], usd(165 * NANO_USD));
    assert_eq!((&gpu["unobserved_seconds"], &gpu["absent_seconds"]), (&0.0.into(), &0.0.into()));
}
