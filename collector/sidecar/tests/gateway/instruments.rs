//! What metrics are declared as: each is read as what it is, or refused by name.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    Sum, Summary, SummaryDataPoint, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_otlp::{EncodedRequest, OtlpFile, Request};
use prost::Message;
use serde_json::Value;

use crate::dcgm::{START, page, text};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, audit, client};
use crate::work::CUMULATIVE;
use crate::{GPU, NANOS, SOON, metered};

const DELTA: i32 = 1;

/// The name of the GPU, whose ID is one on its host.
const OF_HOST: &str = "node-1:GPU-a";

/// Joules per 15 s.
const JOULES: f64 = 571.0;

fn number(from: u64, at: u64, value: f64) -> Vec<NumberDataPoint> {
    vec![NumberDataPoint {
        attributes: vec![text("hw.id", "GPU-a"), text("hw.type", "gpu")],
        start_time_unix_nano: from * NANOS,
        time_unix_nano: at * NANOS,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }]
}

fn gauge(at: u64, value: f64) -> Data {
    Data::Gauge(Gauge { data_points: number(0, at, value) })
}

fn sum(aggregation_temporality: i32, is_monotonic: bool, from: u64, at: u64, value: f64) -> Data {
    Data::Sum(Sum { data_points: number(from, at, value), aggregation_temporality, is_monotonic })
}

fn histogram(at: u64) -> Data {
    let attributes = vec![text("hw.id", "GPU-a"), text("hw.type", "gpu")];
    let time_unix_nano = at * NANOS;
    let point = HistogramDataPoint { attributes, time_unix_nano, ..HistogramDataPoint::default() };
    Data::Histogram(Histogram { data_points: vec![point], aggregation_temporality: CUMULATIVE })
}

fn summary(at: u64) -> Data {
    let attributes = vec![text("hw.id", "GPU-a"), text("hw.type", "gpu")];
    let time_unix_nano = at * NANOS;
    let point = SummaryDataPoint { attributes, time_unix_nano, ..SummaryDataPoint::default() };
    Data::Summary(Summary { data_points: vec![point] })
}

fn request(metrics: Vec<(&str, Data)>) -> EncodedRequest {
    let metric = |(name, data): (&str, Data)| Metric {
        name: name.to_owned(),
        data: Some(data),
        ..Metric::default()
    };
    let metrics = metrics.into_iter().map(metric).collect();
    let attributes = vec![text("service.name", "agent"), text("host.name", "node-1")];
    let group = ResourceMetrics {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
        ..ResourceMetrics::default()
    };
    EncodedRequest::metrics(&ExportMetricsServiceRequest { resource_metrics: vec![group] })
}

/// The reports of the gateway and of an audit of these requests, and the log of the former.
fn reports(requests: Vec<EncodedRequest>) -> ([Value; 2], String) {
    let mut bytes = Vec::new();
    let mut file = OtlpFile::new(&mut bytes);
    for request in &requests {
        file.write(&Request::Metrics(Message::decode(&request.body()[..]).unwrap())).unwrap();
    }
    file.finish().unwrap();
    let audited = audit("otlp.jsonl", &String::from_utf8(bytes).unwrap());
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    requests.into_iter().for_each(|request| client.enqueue(request));
    assert!(client.flush(SOON).all_sent());
    let (_, report, log) = gateway.stop_with_log();
    ([report, audited], log)
}

/// Scenario: the energy of a GPU that draws 571 J every 15 s for 300 s, as each instrument that has energy; deltas also
/// in reverse, each twice, beside those of a second sender that overlap, and without one of them.
/// Guarantee: 11,420 J, in the gateway and in an audit; what was lost is not invented, and no moment counts twice.
#[test]
fn energy_is_read_from_each_instrument_as_what_it_is() {
    let instants = || (START..=START + 300).step_by(15);
    let pages = |energy: &dyn Fn(u64) -> Data| {
        let page = |at| vec![("hw.gpu.utilization", gauge(at, 0.5)), ("hw.energy", energy(at))];
        instants().map(page).map(request).collect::<Vec<_>>()
    };
    let total = |at: u64| 1e6 + JOULES / 15.0 * (at - START) as f64;
    let delta = |at: u64| sum(DELTA, true, at - 15, at, JOULES);
    let twice = || pages(&delta).into_iter().flat_map(|page| [page.clone(), page]).collect();
    let mut lost = pages(&delta);
    lost[7] = request(vec![("hw.gpu.utilization", gauge(START + 105, 0.5))]);
    let overlapping =
        |at: u64| if at == START + 150 { sum(DELTA, true, at - 60, at, 9e3) } else { delta(at) };
    let all: [(&str, Vec<EncodedRequest>, f64); 7] = [
        ("gauge", pages(&|at| gauge(at, total(at))), 20.0),
        ("cumulative", pages(&|at| sum(CUMULATIVE, true, START - 60, at, total(at))), 20.0),
        ("non-monotonic", pages(&|at| sum(CUMULATIVE, false, START - 60, at, total(at))), 20.0),
        ("delta", pages(&delta), 20.0),
        ("delta twice", twice(), 20.0),
        ("lost delta", lost, 19.0),
        ("overlapping delta", pages(&overlapping), 19.0),
    ];
    for (name, requests, intervals) in all {
        let (reports, log) = reports(requests);
        for report in reports {
            let found = report["gpus"][0]["energy_joules"].as_f64().unwrap();
            assert!((found - intervals * JOULES).abs() < 1e-6, "{name}: {found}");
        }
        assert!(!log.contains("cannot be read"), "{name}: {log}");
    }
}

/// Scenario: utilization, power and energy as instruments that do not have them.
/// Guarantee: each is refused by name, with its sender and what to send; the GPU is unobserved, not idle.
#[test]
fn instrument_that_cannot_be_read_is_refused_by_name() {
    let page = |at| {
        vec![
            ("hw.gpu.utilization", histogram(at)),
            ("hw.power", sum(DELTA, true, at - 15, at, 300.0)),
            ("hw.energy", sum(0, true, at - 15, at, JOULES)),
            ("hw.temperature", summary(at)),
            ("hw.gpu.memory.usage", sum(CUMULATIVE, false, START, at, 1e9)),
        ]
    };
    let requests = (START..=START + 60).step_by(15).map(|at| request(page(at))).collect();
    let (reports, log) = reports(requests);
    let refused = |metric: &str, what: &str, quantity: &str, send: &str| {
        format!(
            "{metric} of node-1: is {what}, from which {quantity} cannot be read; its values are refused: send {send}"
        )
    };
    let counter = "a monotonic sum, cumulative or delta";
    for expected in [
        refused("hw.gpu.utilization", "a cumulative histogram", "utilization", "a gauge"),
        refused("hw.power", "a delta monotonic sum", "power", "a gauge"),
        refused("hw.energy", "a monotonic sum without temporality", "energy", counter),
        refused("hw.temperature", "a summary", "temperature", "a gauge"),
    ] {
        assert_eq!(log.matches(&expected).count(), 1, "{expected}: {log}");
        let rejected = reports[1]["rejected_rows"].to_string();
        assert_eq!(rejected.matches(&expected).count(), 1, "{expected}: {rejected}");
    }
    for report in reports {
        let gpu = &report["gpus"][0];
        assert_eq!(gpu["unobserved_seconds"], gpu["span_seconds"], "{gpu:#}");
        assert_eq!(gpu["energy_joules"], Value::Null);
        assert_eq!(gpu["memory"]["used_peak_bytes"], 1_000_000_000);
    }
}

/// Scenario: a program sends utilization, power and temperature of a GPU under the names of OpenTelemetry's conventions,
/// and the temperature of a CPU; another one is a GPU of dcgm-exporter that reports no XID error.
/// Guarantee: what was received is not sent again under its name, so that sums hold; health is stated of the GPU whose
/// errors are reported only. A temperature without a type is read if its ID is that of a GPU, and makes no GPU.
#[test]
fn received_names_are_not_sent_again_and_silence_is_not_health() {
    let of = |id: &str, location: Option<&str>, at: u64, value: f64| {
        let mut attributes = vec![text("hw.id", id)];
        attributes.extend(location.map(|it| text("hw.sensor_location", it)));
        let point = NumberDataPoint { attributes, ..number(0, at, value).remove(0) };
        Data::Gauge(Gauge { data_points: vec![point] })
    };
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for at in (START..=START + 120).step_by(15) {
        client.enqueue(request(vec![
            ("hw.gpu.utilization", gauge(at, 0.5)),
            ("hw.power", gauge(at, 300.0)),
            ("hw.temperature", of("GPU-a", None, at, 41.0)),
        ]));
        client.enqueue(request(vec![("hw.temperature", of("cpu0", None, at, 60.0))]));
        client.enqueue(request(vec![("hw.temperature", of("cpu1", Some("cpu"), at, 60.0))]));
        client.enqueue(page(GPU, at, 50.0));
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{report:#}");
    assert_eq!(gpus.iter().find(|gpu| gpu["id"] == OF_HOST).unwrap()["energy_joules"], 36_000.0);
    let captured = metered(&backend);
    let sent = |metric: &str, gpu: &str| {
        captured.streams(metric).iter().any(|(attributes, _)| attributes["hw.id"] == gpu)
    };
    for metric in ["hw.gpu.utilization", "hw.power", "hw.temperature", "hw.status"] {
        assert!(!sent(metric, OF_HOST), "{metric}");
    }
    // Of names that were not received, and of a GPU of another sender.
    assert!(sent("hw.energy", OF_HOST) && sent("phasemeter.gpu.cost", OF_HOST));
    assert!(sent("hw.gpu.utilization", GPU) && sent("hw.status", GPU));
}
