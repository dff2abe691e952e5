//! Work is counted from the counters of workloads, and divides the bill.
//!
//! Scenario: pages of inference servers as a Collector's Prometheus receiver sends them, and points of
//! OpenTelemetry SDKs, beside GPU readings.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_otlp::EncodedRequest;
use serde_json::{Value, json};

use crate::dcgm::{START, page, text};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{GPU, NANOS, SOON, metered};

const DELTA: i32 = 1;
pub(crate) const CUMULATIVE: i32 = 2;

fn request(instance: &str, name: &str, data: Data) -> EncodedRequest {
    let metric = Metric { name: name.to_owned(), data: Some(data), ..Metric::default() };
    let attributes = vec![text("service.name", "server"), text("service.instance.id", instance)];
    let group = ResourceMetrics {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_metrics: vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }],
        ..ResourceMetrics::default()
    };
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics: vec![group] })
}

/// A point of a counter, in seconds from the start. Without a start it is from Prometheus.
pub(crate) fn counter(
    instance: &str,
    name: &str,
    temporality: i32,
    start: Option<u64>,
    at: u64,
    value: f64,
) -> EncodedRequest {
    let point = NumberDataPoint {
        start_time_unix_nano: start.map_or(0, |start| (START + start) * NANOS),
        time_unix_nano: (START + at) * NANOS,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    let data_points = vec![point];
    let sum = Sum { data_points, aggregation_temporality: temporality, is_monotonic: true };
    request(instance, name, Data::Sum(sum))
}

/// A point of a cumulative counter from Prometheus with these labels.
pub(crate) fn labeled(
    instance: &str,
    name: &str,
    labels: &[(&str, &str)],
    at: u64,
    value: f64,
) -> EncodedRequest {
    let point = NumberDataPoint {
        attributes: labels.iter().map(|(key, value)| text(key, value)).collect(),
        time_unix_nano: (START + at) * NANOS,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    let data_points = vec![point];
    let sum = Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true };
    request(instance, name, Data::Sum(sum))
}

/// A point of a histogram with this sum.
fn histogram(
    instance: &str,
    name: &str,
    temporality: i32,
    times: (u64, u64),
    sum: f64,
) -> EncodedRequest {
    let point = HistogramDataPoint {
        start_time_unix_nano: (START + times.0) * NANOS,
        time_unix_nano: (START + times.1) * NANOS,
        count: 3,
        sum: Some(sum),
        ..HistogramDataPoint::default()
    };
    let histogram = Histogram { data_points: vec![point], aggregation_temporality: temporality };
    request(instance, name, Data::Histogram(histogram))
}

/// Runs a gateway over five minutes of GPU time at a millionth of a dollar per millisecond, with these
/// requests. Returns its report, and the points of a metric by unit and minute.
fn run(requests: Vec<EncodedRequest>, metric: &str) -> (Value, BTreeMap<(String, u64), f64>) {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    requests.into_iter().for_each(|request| client.enqueue(request));
    (0..=20).for_each(|i| client.enqueue(page(GPU, START + i * 15, 50.0)));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let streams = metered(&backend).streams(metric).into_iter();
    let points = streams.flat_map(|(attributes, stream)| {
        let unit = attributes["phasemeter.work.unit"].clone();
        let minute = |time: u64| (time - START * NANOS) / (60 * NANOS);
        stream.points.into_iter().map(move |it| ((unit.clone(), minute(it.time)), it.value))
    });
    (report, points.collect())
}

#[test]
fn tokens_of_vllm_divide_the_bill() {
    let tokens =
        |at, value| counter("a", "vllm:generation_tokens_total", CUMULATIVE, None, at, value);
    let requests = vec![
        // What was done before is not counted.
        tokens(5, 1_000.0),
        tokens(65, 1_600.0),
        // Late, and a duplicate.
        tokens(35, 1_200.0),
        tokens(65, 1_600.0),
        tokens(125, 1_600.0),
        // The server was restarted.
        tokens(185, 100.0),
        counter("a", "vllm:request_success_total", CUMULATIVE, None, 5, 7.0),
        counter("a", "vllm:request_success_total", CUMULATIVE, None, 185, 10.0),
        // Not a counter of work.
        counter("a", "vllm:num_preemptions_total", CUMULATIVE, None, 185, 50.0),
        // The same tokens, as clients see them.
        histogram("client", "gen_ai.client.token.usage", DELTA, (120, 180), 650.0),
    ];
    let (report, sums) = run(requests.clone(), "phasemeter.work.done");
    let at = |unit: &str, minute| (unit.to_owned(), minute);
    let expected = [
        (at("tokens", 2), 600.0),
        (at("tokens", 3), 600.0),
        (at("tokens", 4), 700.0),
        (at("tokens", 5), 700.0),
        (at("requests", 4), 3.0),
        (at("requests", 5), 3.0),
    ];
    assert_eq!(sums, expected.into());
    // 300 s at $0.001 per second.
    assert_eq!(
        report["work"]["tokens"],
        json!({"count": 700, "cost_each_usd": "0.000428571428571429"})
    );
    assert_eq!(report["work"]["requests"], json!({"count": 3, "cost_each_usd": "0.1"}));
    let hour = &report["work_by_hour"][0]["work"];
    assert_eq!(*hour, json!({"tokens": 700, "requests": 3}));

    let (_, costs) = run(requests, "phasemeter.work.unit_cost");
    let expected = [
        // Since the start, since the last tokens, and nothing in between.
        (at("tokens", 2), 0.12 / 600.0),
        (at("tokens", 4), 0.12 / 100.0),
        (at("requests", 4), 0.24 / 3.0),
    ];
    assert_eq!(costs.len(), expected.len(), "{costs:?}");
    for (key, value) in expected {
        assert!((costs[&key] - value).abs() < 1e-15, "{key:?}: {costs:?}");
    }
}

/// Scenario: a gateway without policies over five minutes in which a server reports 600 tokens.
/// Guarantee: the window that policies would evaluate at the end has that work.
#[test]
fn work_of_counters_is_in_windows() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let window = directory.path().join("window.json");
    let gateway = Gateway::start(&backend, &["--dump-windows", window.to_str().unwrap()]);
    let client = client(&gateway.endpoint());
    for (at, tokens) in [(5, 1_000.0), (245, 1_600.0)] {
        let counter = counter("a", "vllm:generation_tokens", CUMULATIVE, None, at, tokens);
        client.enqueue(counter);
    }
    (0..=20).for_each(|i| client.enqueue(page(GPU, START + i * 15, 50.0)));
    assert!(client.flush(SOON).all_sent());
    let (status, _) = gateway.stop();
    assert!(status.success());
    let window: Value = serde_json::from_slice(&std::fs::read(&window).unwrap()).unwrap();
    assert_eq!(window["window"]["metrics"]["work.tokens"], 600.0, "{window:#}");
}

#[test]
fn counters_of_each_server_and_temporality_are_read() {
    let requests = vec![
        counter("s", "sglang:prompt_tokens", CUMULATIVE, None, 10, 5.0),
        counter("s", "sglang:prompt_tokens", CUMULATIVE, None, 70, 25.0),
        counter("t", "nv_inference_count", CUMULATIVE, None, 10, 0.0),
        counter("t", "nv_inference_count", CUMULATIVE, None, 70, 64.0),
        counter("t", "nv_inference_request_success", CUMULATIVE, None, 10, 0.0),
        counter("t", "nv_inference_request_success", CUMULATIVE, None, 70, 2.0),
        histogram("g", "tgi_request_generated_tokens", CUMULATIVE, (0, 10), 100.0),
        histogram("g", "tgi_request_generated_tokens", CUMULATIVE, (0, 70), 180.0),
        // A histogram of this name would not be the counter.
        histogram("g", "tgi_request_success", CUMULATIVE, (0, 70), 180.0),
    ];
    let (report, _) = run(requests, "phasemeter.work.done");
    let counts =
        ["tokens", "samples", "requests"].map(|unit| report["work"][unit]["count"].clone());
    assert_eq!(counts, [json!(100), json!(64), json!(2)], "{}", report["work"]);

    let usage = "gen_ai.client.inference.usage.output_tokens";
    let delta = |from, to, value| counter("c", usage, DELTA, Some(from), to, value);
    let requests = vec![
        delta(60, 120, 30.0),
        delta(0, 60, 10.0),
        // Twice, and within what was counted.
        delta(60, 120, 30.0),
        delta(60, 90, 15.0),
        delta(180, 240, 2.0),
    ];
    let (report, sums) = run(requests, "phasemeter.work.done");
    assert_eq!(report["work"]["tokens"]["count"], 42);
    let minutes: Vec<_> = sums.into_iter().map(|((_, minute), value)| (minute, value)).collect();
    assert_eq!(minutes, [(1, 10.0), (2, 40.0), (3, 40.0), (4, 42.0), (5, 42.0)]);
}

/// Scenario: a server restarts, and its sender keeps the start time.
/// Guarantee: all of its work counts, and the fall is logged once.
#[test]
fn fall_under_the_same_start_is_a_reset_and_logged_once() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    let counts = [0.0, 13_500.0, 500.0, 12_000.0, 0.0, 4_500.0];
    for (at, count) in (0..).step_by(15).zip(counts) {
        client.enqueue(counter("a", "vllm:generation_tokens", CUMULATIVE, Some(0), at, count));
    }
    (0..=20).for_each(|i| client.enqueue(page(GPU, START + i * 15, 50.0)));
    assert!(client.flush(SOON).all_sent());
    let (_, report, log) = gateway.stop_with_log();
    assert_eq!(report["work"]["tokens"]["count"], 30_000, "{}", report["work"]);
    assert_eq!(log.matches("vllm:generation_tokens: fell to 500 under").count(), 1, "{log}");
    assert_eq!(log.matches("under the same start time").count(), 1, "{log}");
}

/// Scenario: 59 requests to an ensemble of Triton, whose models count them too; two models on GPUs of another
/// server; and requests to vLLM, of which some were aborted.
#[test]
fn requests_are_those_that_clients_sent_and_that_were_answered() {
    let success = "nv_inference_request_success";
    let point = |server: &str, model: &str, gpu: Option<&str>, at: u64, value: f64| {
        let labels = [("model", model), ("version", "1")].into_iter();
        let labels: Vec<_> = labels.chain(gpu.map(|gpu| ("gpu_uuid", gpu))).collect();
        labeled(server, success, &labels, at, value)
    };
    let page = |at: u64, done: f64| {
        let ensemble =
            [("ensemble", None), ("preprocessing", None), ("tensorrt_llm", Some("GPU-a"))];
        let ensemble = ensemble.map(|(model, gpu)| point("a", model, gpu, at, 100.0 + done));
        // One model has instances on two GPUs.
        let apart = [("chat", "GPU-b"), ("chat", "GPU-c"), ("embed", "GPU-b")];
        let apart = apart.map(|(model, gpu)| point("b", model, Some(gpu), at, done));
        ensemble.into_iter().chain(apart)
    };
    let requests = page(5, 0.0).chain(page(65, 59.0)).collect();
    let (report, _) = run(requests, "phasemeter.work.done");
    assert_eq!(report["work"]["requests"]["count"], 59 + 3 * 59, "{}", report["work"]);

    let finished = |reason: &str, at: u64, value: f64| {
        let labels = [("finished_reason", reason), ("model_name", "llama")];
        labeled("v", "vllm:request_success_total", &labels, at, value)
    };
    let requests = ["stop", "length", "abort"].map(|reason| [5, 65].map(|at| (reason, at)));
    let requests = requests.into_iter().flatten();
    let requests =
        requests.map(|(reason, at)| finished(reason, at, if at == 5 { 0.0 } else { 20.0 }));
    let (report, _) = run(requests.collect(), "phasemeter.work.done");
    assert_eq!(report["work"]["requests"]["count"], 40, "{}", report["work"]);
}

#[test]
fn mapping_of_user_counts_other_counters() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own.toml");
    std::fs::write(
        &own,
        "reported_by = \"server\"\n[[counter]]\nname = \"trainer_samples\"\nunit = \"samples\"\n",
    )
    .unwrap();
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--work-mapping", own.to_str().unwrap()]);
    let client = client(&gateway.endpoint());
    client.enqueue(counter("a", "trainer_samples_total", CUMULATIVE, None, 0, 0.0));
    client.enqueue(counter("a", "trainer_samples_total", CUMULATIVE, None, 30, 512.0));
    (0..5).for_each(|i| client.enqueue(page(GPU, START + i * 15, 50.0)));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    assert_eq!(report["work"]["samples"]["count"], 512);
}
