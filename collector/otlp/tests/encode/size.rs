//! The size of requests, and what splitting one leaves unchanged.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};
use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_otlp::Request;
use phasemeter_otlp::encode::Aggregation;
use phasemeter_otlp::experiment::ExperimentRequest;
use proptest::prelude::*;

use crate::file::of;
use crate::fixtures::{Run, TestGpu, any_gpus, any_settings, reading, run, settings};

/// The documented maximum of an encoded request.
const MIB: usize = 1 << 20;

/// One item, and all that applies to it: the JSON of its resource, scope and metric.
type Item = (String, String);

/// The items of a request in order.
fn items(request: &Request) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |above: String, item: &dyn std::fmt::Debug| {
        items.push((above, format!("{item:?}")));
    };
    match request {
        Request::Metrics(request) => {
            for of in &request.resource_metrics {
                for scope in &of.scope_metrics {
                    for metric in &scope.metrics {
                        let header = Metric { data: None, ..metric.clone() };
                        let above = (&of.resource, &of.schema_url, &scope.scope, &header);
                        let above = |kind: &dyn std::fmt::Debug| format!("{above:?} {kind:?}");
                        match metric.data.as_ref().unwrap() {
                            Data::Gauge(it) => {
                                it.data_points.iter().for_each(|point| add(above(&"gauge"), point));
                            }
                            Data::Sum(it) => {
                                let kind = (it.is_monotonic, it.aggregation_temporality);
                                it.data_points.iter().for_each(|point| add(above(&kind), point));
                            }
                            Data::Histogram(it) => {
                                let kind = it.aggregation_temporality;
                                it.data_points.iter().for_each(|point| add(above(&kind), point));
                            }
                            Data::ExponentialHistogram(it) => {
                                let kind = it.aggregation_temporality;
                                it.data_points.iter().for_each(|point| add(above(&kind), point));
                            }
                            Data::Summary(it) => panic!("{it:?}"),
                        }
                    }
                }
            }
        }
        Request::Traces(request) => {
            for of in &request.resource_spans {
                for scope in &of.scope_spans {
                    let above = format!("{:?} {:?} {:?}", of.resource, of.schema_url, scope.scope);
                    scope.spans.iter().for_each(|span: &Span| add(above.clone(), span));
                }
            }
        }
        Request::Logs(request) => {
            for of in &request.resource_logs {
                for scope in &of.scope_logs {
                    let above = format!("{:?} {:?} {:?}", of.resource, of.schema_url, scope.scope);
                    scope.log_records.iter().for_each(|it: &LogRecord| add(above.clone(), it));
                }
            }
        }
    }
    items
}

fn check_split(request: &Request, most_bytes: usize) -> Result<(), TestCaseError> {
    let parts = request.clone().split(most_bytes);
    for part in &parts {
        let encoded = part.encode();
        prop_assert_eq!(encoded.items(), items(part).len() as u64);
        prop_assert!(encoded.items() > 0, "an empty request");
        let size = encoded.body().len();
        prop_assert!(size <= most_bytes || encoded.items() == 1, "{} > {}", size, most_bytes);
    }
    let joined: Vec<_> = parts.iter().flat_map(items).collect();
    prop_assert_eq!(joined, items(request));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each part fits or is one item, and together they have the same items in the same order.
    #[test]
    fn split_requests_fit_and_have_the_same_items(
        gpus in any_gpus(), settings in any_settings(), most_bytes in 0..20_000_usize,
    ) {
        for request in &run(&gpus, ExperimentRequest::default(), settings).requests {
            check_split(request, most_bytes)?;
        }
    }
}

/// Every request is within the limit, and each GPU has one point of this metric per phase and boundary.
fn check_fleet(gpus: u64, run: &Run) {
    for request in &run.requests {
        let encoded = request.encode();
        assert!(encoded.body().len() <= MIB, "{} bytes", encoded.body().len());
    }
    let streams = run.metrics();
    let times = of(&streams, "phasemeter.gpu.time");
    let phases = ["productive", "unobserved"];
    for phase in phases {
        let mut of_phase =
            times.iter().filter(|stream| stream.attributes["phasemeter.phase"] == phase);
        assert_eq!(of_phase.clone().count() as u64, gpus, "{phase}");
        assert!(of_phase.all(|stream| stream.points.len() == 3), "{phase}");
    }
}

#[test]
fn requests_of_large_fleet_are_within_limit_and_complete() {
    let readings = [0, 1_000, 65_000, 125_000, 130_000].map(|millis| reading(millis, 80));
    let gpus = 2_500;
    let fleet: Vec<_> = (0..gpus).map(|gpu| TestGpu::new(gpu, "2", readings.to_vec())).collect();
    let run = run(&fleet, ExperimentRequest::default(), settings(60, Aggregation::Explicit));
    check_fleet(u64::from(gpus), &run);
}

/// Attributes of any length, here half a mebibyte each: a request then has a few points.
#[test]
fn requests_with_long_attributes_are_within_limit() {
    let readings = [0, 1_000, 65_000, 125_000, 130_000].map(|millis| reading(millis, 80));
    let mut gpu = TestGpu::new(0, "2", readings.to_vec());
    gpu.identity.model = Some("x".repeat(MIB / 2));
    let run = run(&[gpu], ExperimentRequest::default(), settings(60, Aggregation::Explicit));
    check_fleet(1, &run);
}

/// One item cannot be split: it is sent whole.
#[test]
fn item_larger_than_limit_is_sent_alone() {
    let readings = [0, 1_000].map(|millis| reading(millis, 80)).to_vec();
    let run = run(
        &[TestGpu::new(0, "2", readings)],
        ExperimentRequest::default(),
        settings(60, Aggregation::Explicit),
    );
    let Some(Request::Traces(mut spans)) =
        run.requests.into_iter().find(|it| matches!(it, Request::Traces(_)))
    else {
        panic!("no spans")
    };
    let value = Some(AnyValue { value: Some(Value::StringValue("x".repeat(MIB))) });
    let long = KeyValue { key: "long".to_owned(), value, ..KeyValue::default() };
    spans.resource_spans[0].scope_spans[0].spans[0].attributes.push(long);
    let all = spans.resource_spans[0].scope_spans[0].spans.len();
    let request = Request::Traces(spans);
    let sizes: Vec<_> = request.split(MIB).iter().map(|it| it.encode().items()).collect();
    assert_eq!(sizes.iter().sum::<u64>(), all as u64);
    assert_eq!(sizes[0], 1, "{sizes:?}");
}
