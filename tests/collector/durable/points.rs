//! The points of the sums of time and cost, in files and requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use serde_json::Value;

use crate::otlp::{self, Captured, billionths};

/// A point: metric, attributes, start and time.
pub(crate) type Key = (String, String, u64, u64);

/// Points with their values in billionths.
pub(crate) type Points = BTreeMap<Key, u64>;

/// What a file has: of a process that was killed, the last line may be torn.
pub(crate) fn read(path: &Path) -> Captured {
    let text = fs::read_to_string(path).unwrap();
    let whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
    otlp::read(&text.lines().filter(whole).collect::<Vec<_>>().join("\n"))
}

/// The points of the sums of time and cost. Twice the same is once; different values of one are an error.
pub(crate) fn sums(captured: &Captured) -> Points {
    let mut points = Points::new();
    for name in ["phasemeter.gpu.time", "phasemeter.gpu.cost"] {
        for (attributes, stream) in captured.streams(name) {
            for point in stream.points {
                let key = (name.to_owned(), format!("{attributes:?}"), point.start, point.time);
                add_one(&mut points, key, billionths(point.value));
            }
        }
    }
    points
}

/// Adds points.
pub(crate) fn add(points: &mut Points, more: Points) {
    more.into_iter().for_each(|(key, value)| add_one(points, key, value));
}

fn add_one(points: &mut Points, key: Key, value: u64) {
    assert_eq!(*points.entry(key).or_insert(value), value, "a point was changed");
}

/// Metric and attributes with the last value of each run, summed.
pub(crate) fn totals(points: &Points) -> BTreeMap<(String, String), u64> {
    let mut last = BTreeMap::new();
    for ((name, attributes, start, _), value) in points {
        // Later times come later.
        last.insert((name.clone(), attributes.clone(), *start), *value);
    }
    let mut totals = BTreeMap::new();
    for ((name, attributes, _), value) in last {
        *totals.entry((name, attributes)).or_default() += value;
    }
    totals
}

/// Those of requests.
pub(crate) fn sums_of(requests: Vec<ExportMetricsServiceRequest>) -> Points {
    let metrics = requests.into_iter().flat_map(metrics).collect();
    sums(&Captured { metrics, ..Captured::default() })
}

fn metrics(request: ExportMetricsServiceRequest) -> impl Iterator<Item = Metric> {
    let groups = request.resource_metrics.into_iter();
    groups.flat_map(|group| group.scope_metrics).flat_map(|scope| scope.metrics)
}
