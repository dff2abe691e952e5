//! Work and what it costs by group: per model, engine and service.
//!
//! Scenario: pages of inference servers and of dcgm-exporter, which name the pods or hosts that have GPUs, at $0.001 per
//! second and GPU.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_otlp::EncodedRequest;
use serde_json::{Value, json};

use crate::dcgm::{START, page_of_host, page_with};
use crate::mock_backend::MockBackend;
use crate::otlp::Captured;
use crate::process::{Gateway, client};
use crate::work::labeled;
use crate::{NANO_USD, NANOS, SOON, metered};

const TOKENS: &str = "vllm:generation_tokens_total";

/// Seconds that are metered.
const LENGTH: u64 = 300;

/// Readings of a GPU with these labels.
fn readings(gpu: &str, host: &str, labels: &[(&str, &str)], percent: f64) -> Vec<EncodedRequest> {
    (0..=LENGTH / 15).map(|i| page_with(gpu, host, labels, START + i * 15, percent)).collect()
}

/// A counter of tokens that has the same rate for all of the time.
fn tokens(instance: &str, labels: &[(&str, &str)], per_minute: u64) -> Vec<EncodedRequest> {
    let count =
        |minute: u64| labeled(instance, TOKENS, labels, minute * 60, (minute * per_minute) as f64);
    (0..=LENGTH / 60).map(count).collect()
}

fn run(options: &[&str], requests: impl IntoIterator<Item = EncodedRequest>) -> (Value, Captured) {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, options);
    let client = client(&gateway.endpoint());
    requests.into_iter().for_each(|request| client.enqueue(request));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    assert_sums(&report);
    (report, metered(&backend))
}

fn nano_usd(usd: &Value) -> u64 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// The groups' costs, what is shared and what is unserved are the bill, to the nano-dollar; and their work is all work.
fn assert_sums(report: &Value) {
    let schema =
        serde_json::from_str(include_str!("../../../report/src/report.schema.json")).unwrap();
    let errors = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = errors.iter_errors(report).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    let groups = &report["work_groups"];
    let all = groups["groups"].as_array().unwrap();
    let own: u64 = all.iter().map(|group| nano_usd(&group["cost_usd"])).sum();
    let rest = nano_usd(&groups["shared_usd"]) + nano_usd(&groups["unserved_usd"]);
    assert_eq!(own + rest, nano_usd(&report["cost"]["total_usd"]), "{groups:#}");
    let counts = all.iter().filter_map(|group| group["work"]["tokens"]["count"].as_u64());
    assert_eq!(counts.sum::<u64>(), report["work"]["tokens"]["count"].as_u64().unwrap());
}

/// The group with this value of a label.
fn group<'a>(report: &'a Value, label: &str, value: &str) -> &'a Value {
    let groups = report["work_groups"]["groups"].as_array().unwrap();
    groups.iter().find(|group| group["labels"][label] == value).unwrap()
}

/// What a group costs, what of that is idle, and what each token costs.
fn costs(group: &Value) -> (u64, u64, Option<f64>) {
    let each = group["work"]["tokens"]["cost_each_usd"].as_str().map(|it| it.parse().unwrap());
    (nano_usd(&group["cost_usd"]), nano_usd(&group["idle_usd"]), each)
}

fn pod(name: &str) -> [(&str, &str); 2] {
    [("namespace", "ml"), ("pod", name)]
}

/// The last value of each stream of a metric, by the values of these attributes.
fn last(captured: &Captured, metric: &str, keys: &[&str]) -> BTreeMap<Vec<String>, f64> {
    let streams = captured.streams(metric).into_iter();
    let value = |(attributes, stream): (BTreeMap<String, String>, crate::otlp::Stream)| {
        let value = |key: &&str| attributes.get(*key).cloned().unwrap_or_default();
        (keys.iter().map(value).collect(), stream.points.last().unwrap().value)
    };
    streams.map(value).collect()
}

const MODEL: &str = "phasemeter.work.label.model_name";

/// Guarantee: of two models on four GPUs with different load, each token costs what the GPUs of its model cost, and each
/// model has its own idle GPUs, in the report and on the wire.
#[test]
fn two_models_on_four_gpus_cost_what_their_gpus_cost() {
    let labels = |model, name| [&[("model_name", model)][..], &pod(name)].concat();
    let gpus = [
        ("GPU-0", "a-0", 50.0),
        ("GPU-1", "a-1", 95.0),
        ("GPU-2", "b-0", 80.0),
        ("GPU-3", "b-0", 0.0),
    ];
    let pages =
        gpus.iter().flat_map(|(gpu, name, percent)| readings(gpu, "node-1", &pod(name), *percent));
    let servers = [("a", "a-0", 600), ("a", "a-1", 1_200), ("b", "b-0", 200)];
    let work =
        servers.iter().flat_map(|(model, name, rate)| tokens(name, &labels(model, name), *rate));
    let (report, captured) = run(&[], pages.chain(work));
    let each = |usd: f64, tokens: f64| Some((usd / tokens * 1e9).round());
    let rounded = |(cost, idle, each): (u64, u64, Option<f64>)| {
        (cost, idle, each.map(|each| (each * 1e9).round()))
    };
    let second = LENGTH * NANO_USD;
    let a = costs(group(&report, "model_name", "a"));
    assert_eq!(rounded(a), (2 * second, 0, each(0.6, 9_000.0)));
    let b = costs(group(&report, "model_name", "b"));
    assert_eq!(rounded(b), (2 * second, second, each(0.6, 1_000.0)));
    assert_eq!(report["work_groups"]["unserved_usd"], "0.000000000");
    assert_eq!(report["work_groups"]["shared_usd"], "0.000000000");
    // All work together costs all GPUs, as without groups.
    assert_eq!(report["work"]["tokens"], json!({"count": 10_000, "cost_each_usd": "0.00012"}));

    let texts = |values: [&str; 2]| values.map(str::to_owned).to_vec();
    let done = last(&captured, "phasemeter.work.done", &["phasemeter.work.unit", MODEL]);
    assert_eq!(done, [(texts(["tokens", "a"]), 9_000.0), (texts(["tokens", "b"]), 1_000.0)].into());
    let cost = last(&captured, "phasemeter.work.gpu_cost", &["phasemeter.work.gpu_state", MODEL]);
    let cost = cost.into_iter().map(|(key, usd)| (key, (usd * 1e9).round() as u64));
    let expected = [
        (texts(["working", "a"]), 2 * second),
        (texts(["idle", "a"]), 0),
        (texts(["working", "b"]), second),
        (texts(["idle", "b"]), second),
    ];
    assert_eq!(cost.collect::<BTreeMap<_, _>>(), expected.into());
    // In each minute: 120 milli-dollars of two GPUs.
    let streams = captured.streams("phasemeter.work.unit_cost");
    for (attributes, stream) in streams {
        let tokens = match attributes.get(MODEL).map(String::as_str) {
            Some("a") => 1_800.0 * 2.0,
            Some(_) => 200.0 * 2.0,
            None => 2_000.0,
        };
        let minutes = stream.points.iter().filter(|it| it.time % (60 * NANOS) == 0);
        let minutes: Vec<_> = minutes.map(|it| it.value * tokens).collect();
        assert!(minutes.len() >= 3, "{attributes:?} {minutes:?}");
        assert!(minutes.iter().all(|usd| (usd - 0.24).abs() < 1e-6), "{attributes:?} {minutes:?}");
    }
}

/// Guarantee: by the labels of a mapping, one model on two engines is two groups, each with the cost of its pod.
#[test]
fn engines_of_one_model_cost_what_their_gpus_cost() {
    let directory = tempfile::tempdir().unwrap();
    let mapping = directory.path().join("work.toml");
    let text = "reported_by = \"server\"\nby = [\"model_name\", \"engine\"]\n[[counter]]\n\
                name = \"vllm:generation_tokens\"\nunit = \"tokens\"\n";
    std::fs::write(&mapping, text).unwrap();
    let requests = || {
        let pages = ["e-0", "e-1"].into_iter().enumerate().flat_map(|(index, name)| {
            readings(&format!("GPU-{index}"), "node-1", &pod(name), 60.0)
        });
        let work =
            [("0", "e-0", 600), ("1", "e-1", 300)].into_iter().flat_map(|(engine, name, rate)| {
                let labels = [&[("model_name", "m"), ("engine", engine)][..], &pod(name)].concat();
                tokens(name, &labels, rate)
            });
        pages.chain(work).collect::<Vec<_>>()
    };
    let (report, _) = run(&["--work-mapping", mapping.to_str().unwrap()], requests());
    assert_eq!(costs(group(&report, "engine", "0")), (LENGTH * NANO_USD, 0, Some(0.000_1)));
    assert_eq!(costs(group(&report, "engine", "1")), (LENGTH * NANO_USD, 0, Some(0.000_2)));
    // By the built-in mapping it is one model.
    let (report, _) = run(&[], requests());
    let groups = report["work_groups"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{groups:#?}");
    let (cost, _, each) = costs(&groups[0]);
    assert_eq!((cost, each.map(|it| (it * 1e9).round())), (2 * LENGTH * NANO_USD, Some(133_333.0)));
}

/// Scenario: two models on the GPU of one host, and a third on another host; none names its pod. The second begins after
/// two minutes.
/// Guarantee: time of the GPU that both use is counted once, as shared, and neither has a cost per token, since what each
/// costs is not known; the third one has.
#[test]
fn gpu_that_two_models_share_is_counted_once_and_prices_neither() {
    let pages = ["node-1", "node-2"].into_iter().flat_map(|host| {
        (0..=20).map(move |i| page_of_host(&format!("GPU-{host}"), host, START + i * 15, 50.0))
    });
    let labels = |model, host| [("model_name", model), ("Hostname", host)];
    let second = (2..=5).map(|minute| {
        let of = labels("b", "node-1");
        labeled("b", TOKENS, &of, minute * 60, (minute * 50) as f64)
    });
    let others = [("a", "node-1"), ("c", "node-2")];
    let others = others.iter().flat_map(|(model, host)| tokens(model, &labels(model, host), 100));
    let (report, captured) = run(&[], pages.chain(second).chain(others));
    let of = |model| costs(group(&report, "model_name", model));
    assert_eq!(of("a"), (120 * NANO_USD, 0, None), "before the other one begins");
    assert_eq!(of("b"), (0, 0, None));
    assert_eq!(of("c"), (LENGTH * NANO_USD, 0, Some(0.000_6)));
    assert_eq!(group(&report, "model_name", "b")["shared_gpu_seconds"], 180.0);
    assert_eq!(nano_usd(&report["work_groups"]["shared_usd"]), 180 * NANO_USD);
    let keys = ["phasemeter.work.gpu_state", MODEL];
    let shared = last(&captured, "phasemeter.work.gpu_cost", &keys);
    let shared = shared[&vec!["shared".to_owned(), String::new()]];
    assert_eq!((shared * 1e9).round() as u64, 180 * NANO_USD);
    let priced = captured.streams("phasemeter.work.unit_cost").into_keys();
    let priced: BTreeSet<_> = priced.filter_map(|it| it.get(MODEL).cloned()).collect();
    assert!(!priced.contains("b") && priced.contains("c"), "{priced:?}");
}

/// Guarantee: work without the labels of its mapping, or of a server whose GPUs are unknown, counts, and has no cost of
/// its own; the bill of those GPUs is unserved.
#[test]
fn work_without_labels_or_gpus_has_no_cost_of_its_own() {
    let pages = readings("GPU-0", "node-1", &pod("a-0"), 50.0);
    let gone = [("model_name", "b"), ("pod", "gone")];
    let work = [tokens("a", &[], 100), tokens("b", &gone, 100)].concat();
    let (report, captured) = run(&[], pages.into_iter().chain(work));
    let groups = report["work_groups"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    for group in groups {
        assert_eq!(group["work"]["tokens"], json!({"count": 500, "cost_each_usd": null}));
    }
    assert_eq!(nano_usd(&report["work_groups"]["unserved_usd"]), LENGTH * NANO_USD);
    assert_eq!(captured.streams("phasemeter.work.gpu_cost").len(), 0);
}

/// Guarantee: of a thousand values of a label, 256 are groups and the others are one, as the SDK's overflow; no token is
/// lost.
#[test]
fn groups_are_limited_and_the_others_are_one() {
    let pages = readings("GPU-0", "node-1", &[], 50.0);
    let models: Vec<String> = (0..1_000).map(|number| format!("model-{number}")).collect();
    let work = models.iter().flat_map(|model| {
        let labels = [("model_name", model.as_str())];
        [(0, 0.0), (60, 7.0)].map(|(at, value)| labeled("server", TOKENS, &labels, at, value))
    });
    let (report, captured) = run(&[], pages.into_iter().chain(work));
    let groups = report["work_groups"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 257);
    let overflow: Vec<_> = groups.iter().filter(|it| it["is_overflow"] == true).collect();
    let [overflow] = overflow[..] else { panic!("{overflow:?}") };
    assert_eq!(overflow["work"]["tokens"]["count"], 7 * (1_000 - 256));
    let keys = ["otel.metric.overflow", MODEL];
    let done = last(&captured, "phasemeter.work.done", &keys);
    assert_eq!(done.len(), 257);
    let done: BTreeMap<_, u64> = done.into_iter().map(|(key, sum)| (key, sum as u64)).collect();
    assert_eq!(done.values().sum::<u64>(), 7_000);
    assert_eq!(done[&vec!["true".to_owned(), String::new()]], 7 * 744);
}
