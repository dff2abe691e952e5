//! Fleets through gateways, Collectors and outages into a real Prometheus that accepts no sample older than the
//! newest one of its series: each GPU's cost there is that of the report.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Text;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use phasemeter_otlp::EncodedRequest;
use serde_json::Value;

use crate::fleet::{self, log};
use crate::gateway_process::{Gateway, TIMEOUT, phasemeter};
use crate::otelcol::Otelcol;
use crate::otlp::billionths;
use crate::prometheus::{Prometheus, Running};
use crate::run::{Run, nano_usd};
use crate::server::free_ports;

const NODES: u64 = 125;
const GPUS_PER_NODE: u64 = 8;

/// Scrapes of each node, and seconds between them.
const SCRAPES: u64 = 21;
const EVERY: u64 = 15;

/// The second of the first scrape, a whole minute.
const START: u64 = 1_785_110_400;

/// The cost of each GPU of a report, in nano-dollars.
fn reported(report: &Value) -> BTreeMap<String, u64> {
    let gpus = report["gpus"].as_array().unwrap().iter();
    gpus.map(|gpu| (gpu["id"].as_str().unwrap().to_owned(), nano_usd(&gpu["cost_usd"]))).collect()
}

/// The last cost of each GPU in Prometheus, in nano-dollars.
fn stored(prometheus: &Running, time: Option<u64>) -> BTreeMap<String, u64> {
    let last = "sum by (hw_id) (last_over_time(phasemeter_gpu_cost_total[1h]))";
    let samples = prometheus.query(last, time).into_iter();
    samples.map(|(labels, value)| (labels["hw_id"].clone(), billionths(value))).collect()
}

fn assert_equal(stored: &BTreeMap<String, u64>, reported: &BTreeMap<String, u64>) {
    // A sum of doubles that are each the nearest to whole nano-dollars.
    let differs =
        |(gpu, cost): &(&String, &u64)| stored.get(*gpu).is_none_or(|it| it.abs_diff(**cost) > 1);
    let different: Vec<_> = reported.iter().filter(differs).collect();
    assert!(
        different.is_empty(),
        "{} of {}: {different:?}, not {stored:?}",
        different.len(),
        reported.len()
    );
    assert_eq!(stored.len(), reported.len());
}

#[test]
fn gpus_of_a_large_host_reach_prometheus() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let devices: String = (0..64).map(device).collect();
    let run = Run::scripted(&devices, &[], &["sleep", "4"]);
    let run = run.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &prometheus.otlp());
    let report = run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").report();
    let delivered = report.note("points sent");
    assert!(!delivered.contains("rejected"), "{delivered}");
    let reported = reported(report.json());
    assert_eq!(reported.len(), 64);
    assert_equal(&stored(&prometheus, None), &reported);
}

/// An agent exports cost by holder, with no total beside it: the series sum to the bill, also after a job has ended.
#[test]
fn plain_sum_of_an_agent_is_its_bill() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    fs::create_dir(&jobs).unwrap();
    // GPU 2 is nobody's.
    fs::write(jobs.join("0"), "100\n").unwrap();
    fs::write(jobs.join("1"), "200\n201\n").unwrap();
    let devices: String = [20, 60, 95]
        .map(|it| format!("[[device]]\n[[device.phase]]\nutilization = {it}\n"))
        .concat();
    let (socket, mapping) =
        (dir.path().join("agent.sock"), format!("--job-mapping={}", jobs.display()));
    let socket = format!("--socket={}", socket.display());
    let agent = Run::agent(&devices, &[&mapping, &socket, "--duration=8"]);
    let agent = agent.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &prometheus.otlp());
    let agent = agent.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    let next = thread::spawn(move || {
        thread::sleep(Duration::from_secs(4));
        fs::write(jobs.join("0"), "101\n").unwrap();
    });
    let report = agent.report();
    next.join().unwrap();

    assert_equal(&stored(&prometheus, None), &reported(report.json()));
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for gpu in report.gpus() {
        *expected.entry(String::new()).or_default() += nano_usd(&gpu["nobody"]["cost_usd"]);
        for holder in gpu["holders"].as_array().unwrap() {
            let job = holder["job"].as_str().unwrap().to_owned();
            *expected.entry(job).or_default() += nano_usd(&holder["cost_usd"]);
        }
    }
    assert!(["100", "101", "200", "201", ""].iter().all(|job| expected[*job] > 0), "{expected:?}");
    let by_job =
        "sum by (phasemeter_allocation_job) (last_over_time(phasemeter_gpu_cost_total[1h]))";
    let found = prometheus.query(by_job, None).into_iter();
    let found = found.map(|(labels, value)| {
        (labels.get("phasemeter_allocation_job").cloned().unwrap_or_default(), billionths(value))
    });
    let found: BTreeMap<_, _> = found.collect();
    assert_equal(&found, &expected);
}

/// A device of the fake driver with links.
fn device(gpu: u64) -> String {
    format!("[[device]]\nnvlinks = 18\n[[device.phase]]\nutilization = {gpu}\n")
}

#[test]
fn audited_logs_reach_prometheus() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let dir = tempfile::tempdir().unwrap();
    let mut command = phasemeter(&prometheus.otlp());
    command.args(["audit", "--price=2", "--format=json", "--otlp"]).current_dir(dir.path());
    for (number, gpus) in [0..40, 40..64].into_iter().enumerate() {
        let name = format!("{number}.csv");
        fs::write(dir.path().join(&name), log(gpus, 10)).unwrap();
        command.arg(name);
    }
    let output = command.output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !problem.contains("rejected"), "{problem}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = format!("count_over_time(phasemeter_gpu_cost_total[{}s])", 10 * 60);
    let counts = prometheus.query(&samples, Some(fleet::end(10)));
    let other: Vec<_> = counts.iter().filter(|(_, count)| *count != 10.0).collect();
    assert!(other.is_empty() && !counts.is_empty(), "each minute and the last row: {other:?}");
    assert_equal(&stored(&prometheus, Some(fleet::end(10))), &reported(&report));
}

/// The scrapes of all nodes in the order of time. Each node is scraped at instants of its own.
fn scrapes() -> impl Iterator<Item = EncodedRequest> {
    let mut times: Vec<(u64, u64)> = (0..NODES)
        .flat_map(|node| (0..SCRAPES).map(move |i| ((i * EVERY + node * 37 % EVERY) * 1_000, node)))
        .collect();
    times.sort_unstable();
    times.into_iter().map(|(millis, node)| scrape(node, START * 1_000 + millis))
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Text::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// What a node's exporter reports of its GPUs at this millisecond.
fn scrape(node: u64, millis: u64) -> EncodedRequest {
    let point = |gpu: u64| NumberDataPoint {
        attributes: vec![
            text("UUID", &format!("GPU-{node:08}-0000-4000-8000-{gpu:012}")),
            text("Hostname", &format!("node-{node}")),
        ],
        time_unix_nano: millis * 1_000_000,
        value: Some(Number::AsDouble((node * 8 + gpu) as f64 % 100.0)),
        ..NumberDataPoint::default()
    };
    let data_points = (0..GPUS_PER_NODE).map(point).collect();
    let metric = Metric {
        name: "DCGM_FI_DEV_GPU_UTIL".to_owned(),
        data: Some(Data::Gauge(Gauge { data_points })),
        ..Metric::default()
    };
    let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
    let group = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics: vec![group] })
}

/// Options of a gateway that bills what it receives at once. The readings have fixed times.
const AT_ONCE: [&str; 3] = ["--hold=0.01", "--stale-after=45", "--max-age=315360000"];

/// A gateway's command, without telemetry of itself: its time is today's, and Prometheus takes nothing that is months
/// older than what it has just taken.
fn quiet(endpoint: &str) -> Command {
    let mut command = phasemeter(endpoint);
    command.env("OTEL_SDK_DISABLED", "true");
    command
}

/// The second after the last scrape.
const END: u64 = START + (SCRAPES + 1) * EVERY;

#[test]
fn fleet_with_skewed_scrapes_reaches_prometheus_through_a_gateway() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let gateway = Gateway::start(quiet(&prometheus.otlp()), &AT_ONCE);
    gateway.send(scrapes());
    let reported = reported(&gateway.stop());
    assert_eq!(reported.len() as u64, NODES * GPUS_PER_NODE);
    let samples = format!("min(count_over_time(phasemeter_gpu_cost_total[{}s]))", END - START);
    assert!(prometheus.number(&samples, Some(END)) >= 5.0, "every GPU at every whole minute");
    assert_equal(&stored(&prometheus, Some(END)), &reported);
}

/// Scenario: Prometheus is away while a fleet runs for five minutes; a Collector keeps what is sent. Then it sends
/// the backlog over ten connections at once, in any order.
/// Guarantee: points that arrive late are refused, and what the last ones have is all.
#[test]
fn backlog_after_an_outage_reaches_prometheus_through_ten_consumers() {
    let (Some(prometheus), Some(otelcol)) = (Prometheus::find(), Otelcol::find()) else { return };
    let [address] = free_ports();
    let endpoint = format!("http://{address}/api/v1/otlp/v1/metrics");
    let variables = [("OTELCOL_PROMETHEUS_OTLP", endpoint.as_str()), ("OTELCOL_CONSUMERS", "10")];
    let collector = otelcol.start_with(&["collector.yaml", "prometheus.yaml"], &variables);
    let mut command = quiet(&format!("http://{}", collector.grpc));
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let gateway = Gateway::start(command, &AT_ONCE);
    gateway.send(scrapes());
    let reported = reported(&gateway.stop());
    let prometheus = prometheus.start_at(Some(address), None);
    let began = Instant::now();
    while stored(&prometheus, Some(END)) != reported && began.elapsed() < TIMEOUT {
        thread::sleep(Duration::from_millis(100));
    }
    assert_equal(&stored(&prometheus, Some(END)), &reported);
}
