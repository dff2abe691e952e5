//! Reads OTLP files with the protocol's published types.
//!
//! Phasemeter and the Collector both write such files.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, Metric, NumberDataPoint, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// Attributes of each resource, with the names of its metrics, spans and events.
    pub(crate) resources: Vec<(Attributes, Vec<String>)>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) spans: Vec<Span>,
    pub(crate) events: Vec<LogRecord>,
}

/// Points of one metric with the same attributes.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) is_sum: bool,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) start: u64,
    pub(crate) time: u64,
    pub(crate) value: f64,
}

pub(crate) type Attributes = BTreeMap<String, String>;

/// A number of seconds, or of dollars, to the nearest billionth.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small")]
pub(crate) fn billionths(number: f64) -> u64 {
    (number * 1e9).round() as u64
}

/// Reads a file with one request of one signal per line.
pub(crate) fn read(file: &str) -> Captured {
    let mut captured = Captured::default();
    for line in file.lines() {
        let json: Value = serde_json::from_str(line).unwrap();
        if json.get("resourceMetrics").is_some() {
            let request: ExportMetricsServiceRequest = serde_json::from_str(line).unwrap();
            for group in request.resource_metrics {
                let metrics = group.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
                let metrics: Vec<_> = metrics.collect();
                captured.group(group.resource, metrics.iter().map(|metric| &metric.name));
                captured.metrics.extend(metrics);
            }
        } else if json.get("resourceSpans").is_some() {
            let request: ExportTraceServiceRequest = serde_json::from_str(line).unwrap();
            for group in request.resource_spans {
                let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
                let spans: Vec<_> = spans.collect();
                captured.group(group.resource, spans.iter().map(|span| &span.name));
                captured.spans.extend(spans);
            }
        } else {
            assert!(json.get("resourceLogs").is_some(), "not an OTLP request: {line}");
            let request: ExportLogsServiceRequest = serde_json::from_str(line).unwrap();
            for group in request.resource_logs {
                let events = group.scope_logs.into_iter().flat_map(|scope| scope.log_records);
                let events: Vec<_> = events.collect();
                captured.group(group.resource, events.iter().map(|event| &event.event_name));
                captured.events.extend(events);
            }
        }
    }
    captured
}

pub(crate) fn attributes(of: &[KeyValue]) -> Attributes {
    let text = |pair: &KeyValue| text(pair.value.clone().unwrap().value.unwrap());
    of.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

fn text(value: any_value::Value) -> String {
    match value {
        any_value::Value::StringValue(text) => text,
        any_value::Value::DoubleValue(number) => number.to_string(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(is_so) => is_so.to_string(),
        any_value::Value::ArrayValue(list) => {
            let each = list.values.into_iter().map(|value| text(value.value.unwrap()));
            each.collect::<Vec<_>>().join(" ")
        }
        other => panic!("unexpected attribute type: {other:?}"),
    }
}

impl Captured {
    fn group<'a>(&mut self, resource: Option<Resource>, names: impl Iterator<Item = &'a String>) {
        let attributes = attributes(&resource.unwrap().attributes);
        self.resources.push((attributes, names.cloned().collect()));
    }

    /// The points of a metric by attributes.
    pub(crate) fn streams(&self, name: &str) -> BTreeMap<Attributes, Stream> {
        let mut streams: BTreeMap<_, Stream> = BTreeMap::new();
        for metric in self.metrics.iter().filter(|metric| metric.name == name) {
            let (is_sum, points) = match metric.data.as_ref().unwrap() {
                Data::Sum(sum) => (sum.is_monotonic, &sum.data_points),
                Data::Gauge(gauge) => (false, &gauge.data_points),
                other => panic!("{name} is not numeric: {other:?}"),
            };
            for point in points {
                let stream = streams.entry(attributes(&point.attributes)).or_default();
                stream.is_sum = is_sum;
                stream.points.push(Point::of(point));
            }
        }
        streams
    }

    /// The names of numeric metrics.
    pub(crate) fn numbers(&self) -> Vec<&str> {
        let is_number = |data: &Data| matches!(data, Data::Sum(_) | Data::Gauge(_));
        let numbers = self.metrics.iter().filter(|it| it.data.as_ref().is_some_and(is_number));
        let mut names: Vec<_> = numbers.map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The latest value of a metric of one GPU by phase. A Collector may forward two requests in either order.
    pub(crate) fn last(&self, name: &str, gpu: &str) -> BTreeMap<String, f64> {
        let streams = self.streams(name).into_iter();
        let own = streams.filter(|(attributes, _)| attributes["hw.id"] == gpu);
        own.map(|(attributes, stream)| {
            let latest = stream.points.iter().max_by_key(|point| point.time).unwrap();
            (attributes["phasemeter.phase"].clone(), latest.value)
        })
        .collect()
    }

    /// The final count of a GPU's utilization histogram.
    pub(crate) fn readings(&self, gpu: &str) -> u64 {
        let points =
            self.histograms().filter(|point| attributes(&point.attributes)["hw.id"] == gpu);
        let count = points.map(|point| {
            assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            point.count
        });
        count.last().unwrap_or(0)
    }

    /// The exemplars of a metric, each with its GPU.
    pub(crate) fn exemplars(&self, metric: &str) -> Vec<(String, &Exemplar)> {
        let mut found = Vec::new();
        let mut add = |keys: &[KeyValue], exemplars| {
            let gpu = attributes(keys)["hw.id"].clone();
            found.extend(std::iter::repeat(gpu).zip::<&[Exemplar]>(exemplars));
        };
        for metric in self.metrics.iter().filter(|it| it.name == metric) {
            match &metric.data {
                Some(Data::Histogram(it)) => {
                    it.data_points.iter().for_each(|it| add(&it.attributes, &it.exemplars));
                }
                Some(Data::Sum(it)) => {
                    it.data_points.iter().for_each(|it| add(&it.attributes, &it.exemplars));
                }
                _ => {}
            }
        }
        found
    }

    fn histograms(
        &self,
    ) -> impl Iterator<Item = &opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint> {
        let utilization = self.metrics.iter().filter(|it| it.name == "phasemeter.gpu.utilization");
        utilization.flat_map(|metric| match &metric.data {
            Some(Data::Histogram(histogram)) => histogram.data_points.as_slice(),
            _ => &[],
        })
    }

    /// The metrics without their exemplars.
    pub(crate) fn without_exemplars(&self) -> Vec<Metric> {
        let mut metrics = self.metrics.clone();
        for metric in &mut metrics {
            match &mut metric.data {
                Some(Data::Histogram(it)) => {
                    it.data_points.iter_mut().for_each(|point| point.exemplars.clear());
                }
                Some(Data::Sum(it)) => {
                    it.data_points.iter_mut().for_each(|point| point.exemplars.clear());
                }
                _ => {}
            }
        }
        metrics
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// The children of a span in time order.
    pub(crate) fn children(&self, parent: &Span) -> Vec<&Span> {
        let mut children: Vec<_> =
            self.spans.iter().filter(|span| span.parent_span_id == parent.span_id).collect();
        children.sort_by_key(|span| span.start_time_unix_nano);
        children
    }
}

impl Point {
    fn of(point: &NumberDataPoint) -> Self {
        let value = match point.value.unwrap() {
            number_data_point::Value::AsDouble(value) => value,
            number_data_point::Value::AsInt(value) => value as f64,
        };
        Self { start: point.start_time_unix_nano, time: point.time_unix_nano, value }
    }
}
