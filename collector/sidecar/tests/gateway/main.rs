//! The gateway as users run it: other programs' requests in, the same requests and metered GPUs out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

mod claimed;
mod clocks;
mod command;
mod dcgm;
mod files;
mod gpu_limit;
mod health;
mod holders;
mod identities;
mod instruments;
mod large;
#[path = "../../../../tests/llm/mod.rs"]
mod llm;
mod load;
mod missing;
#[path = "../../../otlp/tests/mock_backend/mod.rs"]
mod mock_backend;
#[path = "../../../../tests/otlp/mod.rs"]
mod otlp;
mod presence;
mod process;
#[path = "../../../../tests/registry/mod.rs"]
mod registry;
mod reload;
mod replicas;
mod restart;
mod routed;
mod sampling;
mod sdk;
mod span_holders;
mod span_load;
mod span_requests;
mod spans;
mod vanished;
mod windows;
mod wire_registry;
mod work;
mod work_groups;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use mock_backend::{MockBackend, ReceivedRequest};
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use phasemeter_otlp::{EncodedRequest, OtlpFile, Request, Signal};
use prost::Message;
use serde_json::json;

use crate::dcgm::{START, cost_of_agent, page, page_of_host, usd};
use crate::otlp::Captured;
use crate::process::{Gateway, client};

/// Deadline of what happens at once.
const SOON: Duration = Duration::from_secs(60);

const NANOS: u64 = 1_000_000_000;

/// Nano-dollars per second at $3.60 per hour.
const NANO_USD: u64 = 1_000_000;

const GPU: &str = "GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d6e";

/// What a backend received over gRPC, without the frame.
fn body(request: &ReceivedRequest) -> &[u8] {
    &request.body[5..]
}

/// What Phasemeter sent to a backend.
fn metered(backend: &MockBackend) -> Captured {
    metered_requests(&backend.received())
}

/// What Phasemeter sent among these requests.
fn metered_requests(requests: &[ReceivedRequest]) -> Captured {
    let mut file = Vec::new();
    let mut out = OtlpFile::new(&mut file);
    for request in requests {
        let request = match Signal::ALL.into_iter().find(|it| it.grpc_method() == request.path) {
            Some(Signal::Metrics) => Request::Metrics(Message::decode(body(request)).unwrap()),
            Some(Signal::Traces) => Request::Traces(Message::decode(body(request)).unwrap()),
            Some(Signal::Logs) => Request::Logs(Message::decode(body(request)).unwrap()),
            None => panic!("{}", request.path),
        };
        if let Some(request) = own_part(request) {
            out.write(&request).unwrap();
        }
    }
    out.finish().unwrap();
    otlp::read(&String::from_utf8(file).unwrap())
}

/// The part of a request that is of Phasemeter's scope, if any.
fn own_part(mut request: Request) -> Option<Request> {
    let is_own = |scope: &Option<InstrumentationScope>| {
        scope.as_ref().is_some_and(|scope| scope.name == "phasemeter")
    };
    let is_any = match &mut request {
        Request::Metrics(request) => {
            // Without the gateway's telemetry of itself.
            let is_of_sdk = |key: &KeyValue| key.key == "telemetry.sdk.name";
            request.resource_metrics.retain_mut(|group| {
                if group.resource.iter().flat_map(|it| &it.attributes).any(is_of_sdk) {
                    return false;
                }
                group.scope_metrics.retain(|it| is_own(&it.scope));
                !group.scope_metrics.is_empty()
            });
            !request.resource_metrics.is_empty()
        }
        Request::Traces(request) => {
            request.resource_spans.retain_mut(|group| {
                group.scope_spans.retain(|it| is_own(&it.scope));
                !group.scope_spans.is_empty()
            });
            !request.resource_spans.is_empty()
        }
        Request::Logs(request) => {
            request.resource_logs.retain_mut(|group| {
                group.scope_logs.retain(|it| is_own(&it.scope));
                !group.scope_logs.is_empty()
            });
            !request.resource_logs.is_empty()
        }
    };
    is_any.then_some(request)
}

/// The last points of a sum of a GPU, in billionths, by phase.
fn sums(captured: &Captured, metric: &str) -> BTreeMap<String, u64> {
    let points = captured.last(metric, GPU).into_iter();
    points.map(|(phase, value)| (phase, (value * 1e9).round() as u64)).collect()
}

fn of<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let pairs = pairs.map(|(phase, value)| (phase.to_owned(), value));
    pairs.into_iter().filter(|(_, value)| *value > 0).collect()
}

/// Without accounts that are zero.
fn nonzero(sums: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    sums.into_iter().filter(|(_, value)| *value > 0).collect()
}

#[test]
fn requests_pass_through_unchanged_and_in_order() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    let sent: Vec<EncodedRequest> = (0..60).map(dcgm::any_request).collect();
    sent.iter().for_each(|request| client.enqueue(request.clone()));
    assert!(client.flush(SOON).all_sent());
    let (status, _) = gateway.stop();
    assert!(status.success());
    let received = backend.received();
    for signal in Signal::ALL {
        let own = sent.iter().filter(|it| it.signal() == signal);
        let expected: Vec<u8> = own.flat_map(|it| it.body().to_vec()).collect();
        // Several may leave as one, whose elements are theirs.
        let is_own = |it: &ReceivedRequest| body(it).windows(10).any(|text| text == b"phasemeter");
        let passed = received.iter().filter(|it| it.path == signal.grpc_method() && !is_own(it));
        let passed: Vec<u8> = passed.flat_map(|it| body(it).to_vec()).collect();
        assert!(passed == expected, "{signal:?}: {} of {} bytes", passed.len(), expected.len());
    }
}

#[test]
fn readings_of_dcgm_exporter_are_billed_to_the_nano_dollar() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    // Eight readings of each, 15 s apart; the last one covers nothing.
    for i in 0..24 {
        let percent = [0.0, 50.0, 95.0][i / 8];
        client.enqueue(page(GPU, START + i as u64 * 15, percent));
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let captured = metered(&backend);
    let expected = [("idle_free", 120), ("underutilized", 120), ("compute_bound", 105)];
    let time = expected.map(|(phase, seconds)| (phase, seconds * 1_000_000_000));
    let cost = expected.map(|(phase, seconds)| (phase, seconds * NANO_USD));
    assert_eq!(nonzero(sums(&captured, "phasemeter.gpu.time")), of(time));
    assert_eq!(nonzero(sums(&captured, "phasemeter.gpu.cost")), of(cost));
    assert_eq!(report["gpus"][0]["uuid"], GPU, "{report:#}");
    assert_eq!(report["gpus"][0]["model"], "NVIDIA L4");
    let bases = report["gpus"][0].to_string();
    assert!(bases.contains("dcgm.gpu"), "{bases}");
}

#[test]
fn gpu_that_an_agent_meters_is_billed_once() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for i in 0..24 {
        client.enqueue(page(GPU, START + i * 15, 50.0));
        // The agent ends after 180 s.
        if i % 4 == 3 && i * 15 < 180 {
            client.enqueue(cost_of_agent(GPU, START, START + 45 + (i - 3) * 15, "an agent"));
        }
    }
    client.enqueue(cost_of_agent(GPU, START, START + 180, "an agent"));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let captured = metered(&backend);
    let own: u64 =
        captured.metrics.iter().filter(|metric| metric.name == "phasemeter.gpu.cost").count()
            as u64;
    assert!(own > 3, "those of the agent pass, too");
    let costs = report["gpus"][0].to_string();
    // From 180 s to the last reading, at 345 s.
    assert!(costs.contains(&usd(165 * NANO_USD)), "{costs}");
}

/// Scenario: before an agent, a stranger reports the cost of many GPUs, with IDs that are too long or unknown, and
/// that of the agent's GPU up to the year 2200.
/// Guarantee: the bill is that of the agent alone, and what was ahead of the clock is counted.
#[test]
fn coverage_of_strangers_changes_no_bill() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let peak = gateway.peak_kib();
    let client = client(&gateway.endpoint());
    let long = "x".repeat(100_000);
    client.enqueue(cost_of_agent(GPU, START, START + 174 * 365 * 86_400, "a stranger"));
    for i in 0..40 {
        client.enqueue(cost_of_agent(&format!("{long}{i}"), START, START + 345, "a stranger"));
    }
    client.enqueue(cost_of_agent(GPU, START, START + 180, "an agent"));
    for i in 0..1_500 {
        client.enqueue(cost_of_agent(&format!("GPU-{i}"), START, START + 345, "a stranger"));
    }
    (0..24).for_each(|i| client.enqueue(page(GPU, START + i * 15, 50.0)));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let peak = peak.join().unwrap();
    let gpu = report["gpus"][0].to_string();
    assert!(gpu.contains(&usd(165 * NANO_USD)), "{gpu}");
    assert!(report["sampling"].to_string().contains("1 value over 5 min ahead"), "{report:#}");
    let notes = report["assumptions"].to_string();
    assert!(notes.contains("reported by a stranger (1500 points), an agent (1 point)"), "{notes}");
    assert!(peak < 64 << 10, "{peak} KiB");
}

#[test]
fn pause_between_readings_is_unobserved_and_billed() {
    let (captured, report) = with_pause(&[]);
    assert!(captured.events.iter().all(|it| it.event_name != "phasemeter.gpu.gap.found"));
    let expected = [("underutilized", 11 * 15 + 45 + 11 * 15), ("unobserved", 29 * 15 - 45)];
    let cost = nonzero(sums(&captured, "phasemeter.gpu.cost"));
    assert_eq!(cost, of(expected.map(|(phase, seconds)| (phase, seconds * NANO_USD))));
    let note = "1 pause between readings, 390.0 s in all, is unobserved";
    assert!(report["sampling"].to_string().contains(note), "{report:#}");
}

/// What is exported and reported of a GPU with a pause of 435 s between two readings.
fn with_pause(options: &[&str]) -> (Captured, serde_json::Value) {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, options);
    let client = client(&gateway.endpoint());
    for i in (0..12).chain(40..52) {
        client.enqueue(page(GPU, START + i * 15, 50.0));
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    (metered(&backend), report)
}

#[test]
fn pause_that_is_absent_is_an_event_and_not_billed() {
    let (captured, report) = with_pause(&["--missing", "absent"]);
    let events: Vec<_> =
        captured.events.iter().filter(|it| it.event_name == "phasemeter.gpu.gap.found").collect();
    assert_eq!(events.len(), 1);
    let attributes = otlp::attributes(&events[0].attributes);
    // 28 intervals without a reading, of which the reading before covers three.
    assert_eq!(attributes["phasemeter.gpu.gap.duration"], (29 * 15 - 45).to_string());
    let cost = nonzero(sums(&captured, "phasemeter.gpu.cost"));
    assert_eq!(cost, of([("underutilized", (11 * 15 + 45 + 11 * 15) * NANO_USD)]));
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["absent_seconds"], f64::from(29 * 15 - 45), "{report:#}");
    assert_eq!(gpu["absent_usd"], usd((29 * 15 - 45) * NANO_USD));
}

/// Scenario: what another Phasemeter exports about a GPU passes, besides its cost.
/// Guarantee: it is not metered again.
#[test]
fn metrics_of_phasemeter_are_not_metered() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    (0..12).for_each(|i| client.enqueue(dcgm::hardware(GPU, "phasemeter", START + i * 15)));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    assert_eq!(report["gpus"], serde_json::json!([]), "{report:#}");

    let gateway = Gateway::start(&backend, &[]);
    let client = process::client(&gateway.endpoint());
    (0..12).for_each(|i| client.enqueue(dcgm::hardware(GPU, "another", START + i * 15)));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    assert_eq!(report["gpus"][0]["uuid"], GPU, "{report:#}");
}

/// Scenario: a host sends ratios where percents are declared, then percents; another host sends percents, with a
/// corrupt value in between.
/// Guarantee: the first is named once when that is proven and once when it ends, and its values are unreadable
/// meanwhile; the corrupt value costs its reading; nothing costs another GPU.
#[test]
fn sender_that_contradicts_its_mapping_is_named_and_costs_no_other() {
    const OTHER: &str = "GPU-0b1c2d3e-7a6b-4e5b-9d3e-1f2a3b4c5d6e";
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--log-level", "info"]);
    let client = client(&gateway.endpoint());
    for i in 0..41 {
        let percent = if i < 20 { 0.87 } else { 50.0 };
        client.enqueue(page_of_host(GPU, "node-1", START + i * 15, percent));
        let percent = if i == 20 { 2_619.0 } else { 50.0 };
        client.enqueue(page_of_host(OTHER, "node-2", START + i * 15, percent));
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report, log) = gateway.stop_with_log();
    let subject = "DCGM_FI_DEV_GPU_UTIL of node-1: ";
    assert_eq!(log.matches(&format!("{subject}declared as percent, but 10")).count(), 1, "{log}");
    assert_eq!(
        log.matches(&format!("{subject}10 values in a row are percent")).count(),
        1,
        "{log}"
    );
    let unobserved = |uuid: &str| {
        let gpus = report["gpus"].as_array().unwrap();
        let gpu = gpus.iter().find(|gpu| gpu["uuid"] == uuid).unwrap();
        (gpu["span_seconds"].clone(), gpu["unobserved_seconds"].clone())
    };
    assert_eq!(unobserved(OTHER), (json!(600.0), json!(15.0)), "the corrupt reading");
    assert_eq!(unobserved(GPU), (json!(600.0), json!(29.0 * 15.0)), "until the tenth percent");
}

#[test]
fn gateway_without_backend_or_before_itself_is_rejected() {
    let error = |endpoint: &str, options: &[&str]| process::rejection(endpoint, options);
    let (code, text) = error("", &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("OTEL_EXPORTER_OTLP_ENDPOINT: not set"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let (code, text) = error("http://127.0.0.1:9", &["--max-age", "59"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("expected seconds from 60 to 315360000"), "{text}");
    let socket = format!("unix:{}", directory.path().join("s").display());
    let (code, text) = error(&socket, &["--listen", &socket]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("is the receiver itself"), "{text}");
    let (code, text) = error(&socket, &["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("reachable from other machines"), "{text}");
    let mapping = directory.path().join("own.toml");
    fs::write(&mapping, "[identity]\nuuid = []\n").unwrap();
    let mapping = mapping.to_str().unwrap();
    let (code, text) = error(&socket, &["--listen", "127.0.0.1:0", "--mapping", mapping]);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("identity: names no label of uuid"), "{text}");
}
