//! Values that are missing or corrupt cost the same in a gateway and in an audit of the same points.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, number_data_point};
use phasemeter_otlp::{EncodedRequest, OtlpFile, Request};
use prost::Message;
use serde_json::{Value, json};

use crate::dcgm::{START, page_of_host};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, audit, client};
use crate::{GPU, SOON};

/// A number in place of one that JSON does not have.
const MARK: f64 = 77.125;

/// What a sender has in place of a utilization.
#[derive(Clone, Copy)]
enum Gap {
    /// A number that is none, like Prometheus's marker of a series that ended.
    NotANumber,
    /// A point without a recorded value, as a Collector converts that marker.
    NotRecorded,
    /// The number with which DCGM prints that there is no value.
    Blank,
    /// A corrupt number.
    Corrupt,
}

impl Gap {
    const fn number(self) -> f64 {
        match self {
            Self::NotANumber | Self::NotRecorded => f64::NAN,
            Self::Blank => 9_223_372_036_854_775_794.0,
            Self::Corrupt => 2_619.0,
        }
    }
}

/// The utilization of each page, 15 s apart: `None` is a gap.
fn percents() -> Vec<Option<f64>> {
    let percents = [95.0, 40.0, 5.0].into_iter().flat_map(|percent| [percent; 12]);
    let gap = |i: usize| (8..11).contains(&i) || i == 20 || i == 30;
    percents.enumerate().map(|(i, percent)| (!gap(i)).then_some(percent)).collect()
}

fn requests(gap: Gap, number: f64) -> Vec<EncodedRequest> {
    let at = (START..).step_by(15);
    let pages = percents().into_iter().zip(at).map(|(percent, at)| {
        let page = page_of_host(GPU, "node-1", at, percent.unwrap_or(number));
        match gap {
            Gap::NotRecorded if percent.is_none() => without_value(&page),
            _ => page,
        }
    });
    pages.collect()
}

fn decoded(page: &EncodedRequest) -> ExportMetricsServiceRequest {
    Message::decode(&page.body()[..]).unwrap()
}

/// The page with a utilization that was not recorded.
fn without_value(page: &EncodedRequest) -> EncodedRequest {
    let mut request = decoded(page);
    for metric in &mut request.resource_metrics[0].scope_metrics[0].metrics {
        if metric.name == "DCGM_FI_DEV_GPU_UTIL"
            && let Some(Data::Gauge(gauge)) = &mut metric.data
        {
            let point = &mut gauge.data_points[0];
            *point = NumberDataPoint { value: None, flags: 1, ..point.clone() };
        }
    }
    EncodedRequest::metrics(&request)
}

/// The pages as OTLP in JSON, as a Collector's file exporter writes them.
fn json_lines(gap: Gap) -> String {
    let number = if gap.number().is_nan() { MARK } else { gap.number() };
    let mut bytes = Vec::new();
    let mut file = OtlpFile::new(&mut bytes);
    for page in requests(gap, number) {
        file.write(&Request::Metrics(decoded(&page))).unwrap();
    }
    file.finish().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    text.replace(&MARK.to_string(), "\"NaN\"")
}

/// The pages as samples of Prometheus.
fn samples(gap: Gap) -> String {
    let mut text = String::new();
    for page in requests(gap, gap.number()) {
        for metric in &decoded(&page).resource_metrics[0].scope_metrics[0].metrics {
            let Some(Data::Gauge(gauge)) = &metric.data else { panic!("{metric:?}") };
            let point = &gauge.data_points[0];
            let number = match point.value {
                Some(number_data_point::Value::AsDouble(number)) => number,
                _ => f64::NAN,
            };
            let millis = point.time_unix_nano / 1_000_000;
            let labels = format!("UUID=\"{GPU}\",modelName=\"NVIDIA L4\",Hostname=\"node-1\"");
            text += &format!("{}{{{labels}}} {number} {millis}\n", metric.name);
        }
    }
    text
}

/// What a GPU costs, and why its time is unobserved.
fn bill(report: &Value) -> Value {
    let gpu = &report["gpus"][0];
    let fields = [
        "span_seconds",
        "unobserved_seconds",
        "unobserved_reasons",
        "phases",
        "cost_usd",
        "waste_usd",
        "unobserved_usd",
        "effective_seconds",
    ];
    json!(fields.map(|field| gpu[field].clone()))
}

/// Scenario: utilization is missing or corrupt on three pages in a row and on two single ones.
/// Guarantee: each costs its reading, which ends the one before it: five intervals are unobserved, in a gateway, in
/// an audit of OTLP in JSON, and in one of a Prometheus page.
#[test]
fn missing_value_costs_its_reading_in_gateway_and_audit() {
    for gap in [Gap::NotANumber, Gap::NotRecorded, Gap::Blank, Gap::Corrupt] {
        let backend = MockBackend::start([]);
        let gateway = Gateway::start(&backend, &[]);
        let client = client(&gateway.endpoint());
        requests(gap, gap.number()).into_iter().for_each(|page| client.enqueue(page));
        assert!(client.flush(SOON).all_sent());
        let (_, live) = gateway.stop();
        assert_eq!(live["gpus"][0]["span_seconds"], 525.0);
        assert_eq!(live["gpus"][0]["unobserved_seconds"], 75.0, "{:#}", live["gpus"][0]);
        for (name, content) in [("otlp.jsonl", json_lines(gap)), ("samples.prom", samples(gap))] {
            assert_eq!(bill(&audit(name, &content)), bill(&live), "{name}");
        }
    }
}
