//! Several gateways that receive the same divide it: each GPU is billed once, and what passes arrives once.
//!
//! Scenario: sixteen GPUs on eight hosts, a server with a counter, and requests of a span and a log record from twenty
//! resources, sent to each gateway alike.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_otlp::{EncodedRequest, Signal};
use prost::Message;
use serde_json::Value;

use crate::dcgm::{START, cost_of_agent, page, page_of_host, text};
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::process::{Gateway, rejection};
use crate::span_requests::{received_spans, span, traces};
use crate::spans::{Sums, assert_sums, base, send};
use crate::work::{CUMULATIVE, counter};
use crate::{GPU, NANO_USD, NANOS, body};

const HOSTS: u64 = 8;

/// Seconds that are metered.
const LENGTH: u64 = 60;

const OPTIONS: [&str; 4] = ["--price-spans", "llm_*", "--hold", "1"];

fn readings(base: u64) -> impl Iterator<Item = EncodedRequest> {
    (0..=LENGTH).flat_map(move |second| {
        (0..2 * HOSTS).map(move |gpu| {
            let (id, host) = (format!("GPU-{gpu:08x}-0000"), format!("node-{}", gpu / 2));
            page_of_host(&id, &host, base + second, 50.0)
        })
    })
}

/// A span on each host from 10 s to 50 s, and one on a host without GPUs, of twenty processes.
fn spans(base: u64) -> impl Iterator<Item = EncodedRequest> {
    (0..20).map(move |number| {
        let (host, process) = (format!("node-{}", number % (HOSTS + 1)), number.to_string());
        let span = span("llm_request", number, base, 10 * NANOS, 50 * NANOS);
        traces(&[("host.name", &host), ("service.instance.id", &process)], &[span])
    })
}

/// A request of one log record for each of these resources.
fn logs() -> EncodedRequest {
    let group = |number: u64| {
        let attributes = vec![text("service.instance.id", &number.to_string())];
        let record = LogRecord { event_name: format!("log {number}"), ..LogRecord::default() };
        ResourceLogs {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_logs: vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }],
            ..ResourceLogs::default()
        }
    };
    EncodedRequest::logs(&ExportLogsServiceRequest { resource_logs: (0..20).map(group).collect() })
}

/// What each gateway sent and reported, of all with these names; of one without a list if there are none.
fn run(base: u64, names: &[&str]) -> Vec<(Vec<ReceivedRequest>, Value)> {
    let list = names.join(",");
    let options = |own: &&str| {
        let replica =
            ["--replicas".to_owned(), list.clone(), "--replica".to_owned(), (*own).to_owned()];
        OPTIONS.map(str::to_owned).into_iter().chain(replica).collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<String>> = names.iter().map(options).collect();
    if all.is_empty() {
        all.push(OPTIONS.map(str::to_owned).to_vec());
    }
    let outcome = |options: Vec<String>| {
        let backend = MockBackend::start([]);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let gateway = Gateway::start(&backend, &options);
        // The hosts are known once their GPUs are.
        let readings: Vec<_> = readings(base).collect();
        let (first, others) = readings.split_at(2 * HOSTS as usize);
        send(&gateway.endpoint(), first.iter().cloned());
        send(&gateway.endpoint(), spans(base).chain([logs()]));
        let tokens = |at, value| {
            counter("server", "vllm:generation_tokens_total", CUMULATIVE, None, at, value)
        };
        send(&gateway.endpoint(), [tokens(0, 100.0), tokens(60, 700.0)]);
        send(&gateway.endpoint(), others.iter().cloned());
        let (_, report) = gateway.stop();
        (backend.received(), report)
    };
    all.into_iter().map(outcome).collect()
}

fn nano_usd(usd: &Value) -> u64 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// The names of log records among these requests.
fn log_names(requests: &[ReceivedRequest]) -> Vec<String> {
    let logs = requests.iter().filter(|it| it.path == Signal::Logs.grpc_method());
    let logs = logs.map(|it| ExportLogsServiceRequest::decode(body(it)).unwrap());
    let scopes = logs.flat_map(|it| it.resource_logs).flat_map(|it| it.scope_logs);
    let names = scopes.flat_map(|it| it.log_records).map(|it| it.event_name);
    names.filter(|name| name.starts_with("log ")).collect()
}

/// Guarantee: of two gateways and of three, each GPU is billed by exactly one and the bills sum to that of one gateway, to
/// the nano-dollar; spans, logs and metrics pass once, spans cost the same, and work counts once.
#[test]
fn replicas_divide_the_bill_of_one_gateway() {
    let base = base();
    let all = run(base, &[]);
    let [(_, single)] = &all[..] else { panic!() };
    let bill = nano_usd(&single["cost"]["total_usd"]);
    assert_eq!(bill, 2 * HOSTS * LENGTH * NANO_USD);
    let costs = |outcomes: &[(Vec<ReceivedRequest>, Value)]| {
        let mut costs = BTreeMap::new();
        for (requests, report) in outcomes {
            let Sums { prices, .. } = assert_sums(requests, report);
            for (id, price) in prices {
                *costs.entry(id).or_insert(0) += price.nano_usd;
            }
        }
        costs
    };
    let expected = costs(&all);
    assert_eq!(expected.len(), 18, "those of hosts with GPUs");
    for names in [&["a", "b"][..], &["a", "b", "c"]] {
        let outcomes = run(base, names);
        let bills = outcomes.iter().map(|(_, report)| nano_usd(&report["cost"]["total_usd"]));
        assert!(bills.clone().all(|it| it > 0 && it < bill), "each has a part of them");
        assert_eq!(bills.sum::<u64>(), bill);
        let gpus = outcomes.iter().flat_map(|(_, report)| report["gpus"].as_array().unwrap());
        let gpus: Vec<_> = gpus.map(|gpu| gpu["uuid"].to_string()).collect();
        assert_eq!(gpus.len() as u64, 2 * HOSTS, "{gpus:?}");
        assert_eq!(gpus.iter().collect::<BTreeSet<_>>().len(), gpus.len(), "{gpus:?}");
        let counts = outcomes.iter().filter_map(|(_, it)| it["work"]["tokens"]["count"].as_u64());
        assert_eq!(counts.collect::<Vec<_>>(), [600]);
        let mut each = outcomes.iter().map(|(_, it)| &it["work"]["tokens"]["cost_each_usd"]);
        assert!(each.all(Value::is_null), "a part of the bill is not the cost of all work");

        let passed = outcomes.iter().flat_map(|(requests, _)| received_spans(requests));
        let mut spans: Vec<_> = passed.map(|it| it.span.span_id).collect();
        spans.sort_unstable();
        assert_eq!(spans, (1..=20_u64).map(|id| id.to_be_bytes().to_vec()).collect::<Vec<_>>());
        let mut logs: Vec<_> =
            outcomes.iter().flat_map(|(requests, _)| log_names(requests)).collect();
        logs.sort_unstable();
        let mut all_logs: Vec<_> = (0..20).map(|number| format!("log {number}")).collect();
        all_logs.sort_unstable();
        assert_eq!(logs, all_logs);
        assert!(outcomes.iter().all(|(requests, _)| !log_names(requests).is_empty()));

        let found = costs(&outcomes);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert_eq!(found.values().sum::<u64>(), expected.values().sum::<u64>());
        for (id, cost) in &found {
            // A nano-dollar for each division of each GPU.
            assert!(cost.abs_diff(expected[id]) <= 2 * LENGTH, "{cost} {}", expected[id]);
        }
    }
}

/// Scenario: the cost of a GPU of this gateway, as reported by the other one of the list, whose list is another; and as
/// reported by a meter that is not in the list.
/// Guarantee: the list decides among its members, so none is silent because of the other; all other meters count.
#[test]
fn replica_bills_its_gpus_whatever_others_of_the_list_report() {
    let bill = |own: &str, sender: &str| {
        let backend = MockBackend::start([]);
        let options = ["--replicas", "a,b", "--replica", own];
        let gateway = Gateway::start(&backend, &options);
        send(&gateway.endpoint(), [cost_of_agent(GPU, START, START + 60, sender)]);
        send(&gateway.endpoint(), (0..=60).map(|second| page(GPU, START + second, 50.0)));
        let (_, report) = gateway.stop();
        let cost = &report["cost"]["total_usd"];
        if cost.is_null() { 0 } else { nano_usd(cost) }
    };
    assert_eq!(["a", "b"].map(|own| bill(own, "an agent")), [0, 0]);
    let bills = [("a", "b"), ("b", "a")].map(|(own, other)| bill(own, other));
    assert_eq!(bills.iter().sum::<u64>(), 60 * NANO_USD, "{bills:?}");
    assert!(bills.contains(&0), "one of them has it: {bills:?}");
}

#[test]
fn replica_that_is_not_listed_is_an_error_that_names_the_option() {
    let rejected = |options: &[&str]| rejection("http://127.0.0.1:9", options);
    let (status, log) = rejected(&["--replicas", "a,b", "--replica", "c"]);
    assert_eq!(status, Some(2), "{log}");
    assert!(log.contains("--replica c: not among --replicas a,b; name one of them"), "{log}");
    let (status, log) = rejected(&["--replicas", "a,a", "--replica", "a"]);
    assert_eq!(status, Some(2), "{log}");
    assert!(log.contains("--replicas a,a: expected different names"), "{log}");
    for options in [["--replicas", "a,b"], ["--replica", "a"]] {
        let (status, log) = rejected(&options);
        assert_eq!(status, Some(2), "{log}");
    }
}
