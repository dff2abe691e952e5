//! Pages of requests.

use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, Gauge, Histogram, HistogramDataPoint, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    Sum, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::*;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
const DELTA: i32 = AggregationTemporality::Delta as i32;

fn attributes(all: &[(&str, &str)]) -> Vec<KeyValue> {
    let one = |(key, value): &(&str, &str)| {
        let value = Some(AnyValue { value: Some(Value::StringValue((*value).to_owned())) });
        KeyValue { key: (*key).to_owned(), value, ..KeyValue::default() }
    };
    all.iter().map(one).collect()
}

fn request(metrics: Vec<Metric>) -> Request {
    let of = [("service.name", "phasemeter"), ("service.instance.id", "1"), ("host.arch", "x")];
    let resource = Some(Resource { attributes: attributes(&of), ..Resource::default() });
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let of_resource = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    Request::Metrics(ExportMetricsServiceRequest { resource_metrics: vec![of_resource] })
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        description: "A \"quoted\"\nhelp".to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn point(value: f64, gpu: &str) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&[("hw.id", gpu)]),
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn cost(points: Vec<NumberDataPoint>, temporality: i32) -> Metric {
    let sum = Sum { data_points: points, aggregation_temporality: temporality, is_monotonic: true };
    metric("phasemeter.gpu.cost", "{USD}", Data::Sum(sum))
}

fn costs(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("phasemeter_gpu_cost_total{")).collect()
}

fn everything() -> Request {
    let span = Exemplar {
        trace_id: vec![0xab; 16],
        span_id: vec![0xcd; 8],
        time_unix_nano: 1_785_110_400_500_000_000,
        value: Some(exemplar::Value::AsDouble(0.07)),
        ..Exemplar::default()
    };
    let histogram = HistogramDataPoint {
        explicit_bounds: vec![0.05, 1.0],
        bucket_counts: vec![2, 3, 0],
        count: 5,
        sum: Some(1.5),
        exemplars: vec![span],
        ..HistogramDataPoint::default()
    };
    let histogram = Histogram { data_points: vec![histogram], aggregation_temporality: CUMULATIVE };
    request(vec![
        cost(vec![point(0.125, "GPU-\"1\"")], CUMULATIVE),
        metric("hw.power", "W", Data::Gauge(Gauge { data_points: vec![point(700.0, "GPU-1")] })),
        metric("phasemeter.gpu.utilization", "1", Data::Histogram(histogram)),
    ])
}

#[test]
fn page_has_each_metric_once_with_its_type_and_series() {
    let exposition = Exposition::new(Duration::from_secs(60));
    let now = Instant::now();
    exposition.record(&everything(), now);
    insta::assert_snapshot!("text", exposition.page(Format::Text, now));
    insta::assert_snapshot!("openmetrics", exposition.page(Format::OpenMetrics, now));
}

#[test]
fn newest_value_of_a_series_counts_and_differences_add_up() {
    let exposition = Exposition::new(Duration::from_secs(60));
    let now = Instant::now();
    for value in [1.0, 2.0] {
        exposition.record(&request(vec![cost(vec![point(value, "a")], CUMULATIVE)]), now);
        exposition.record(&request(vec![cost(vec![point(value, "b")], DELTA)]), now);
    }
    let page = exposition.page(Format::Text, now);
    let values: Vec<_> = costs(&page).iter().map(|it| it.rsplit_once(' ').unwrap().1).collect();
    assert_eq!(values, ["2", "3"]);
}

/// Scenario: a GPU ends, another one goes on.
/// Guarantee: its series end, once Prometheus would not look back that far or two exports are over, and its memory is
/// free again.
#[test]
fn series_that_is_not_exported_ends() {
    for (interval, ends_after) in [(60, 300), (3_600, 7_200)] {
        let exposition = Exposition::new(Duration::from_secs(interval));
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let both = vec![point(1.0, "ends"), point(1.0, "stays")];
        exposition.record(&request(vec![cost(both, CUMULATIVE)]), began);
        let one = request(vec![cost(vec![point(2.0, "stays")], CUMULATIVE)]);
        exposition.record(&one, at(ends_after));
        assert_eq!(costs(&exposition.page(Format::Text, at(ends_after))).len(), 2);
        let page = exposition.page(Format::Text, at(ends_after + 1));
        assert_eq!(costs(&page).len(), 1, "{page}");
        assert!(costs(&page)[0].contains("stays"));
        let _none = exposition.page(Format::Text, at(2 * ends_after + 1));
        assert_eq!(exposition.table().bytes, 0);
        assert!(exposition.table().families.is_empty());
    }
}

/// Scenario: ten thousand GPUs at once, and then others.
/// Guarantee: series beyond the limit are left out, until earlier ones have ended. Nobody needs to ask for the page.
#[test]
fn memory_is_bounded() {
    let limit = 64 << 10;
    let exposition = Exposition::with_limit(Duration::from_secs(60), limit);
    let began = Instant::now();
    for gpu in 0..10_000 {
        let one = request(vec![cost(vec![point(1.0, &gpu.to_string())], CUMULATIVE)]);
        exposition.record(&one, began);
        assert!(exposition.table().bytes <= limit);
    }
    let full = costs(&exposition.page(Format::Text, began)).len();
    assert!((100..1_000).contains(&full), "{full}");
    let later = began + Duration::from_secs(301);
    exposition.record(&request(vec![cost(vec![point(1.0, "new")], CUMULATIVE)]), later);
    let page = exposition.page(Format::Text, later);
    assert!(costs(&page).len() == 1 && page.contains("new"), "{page}");
}
