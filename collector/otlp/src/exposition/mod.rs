//! The metrics that were exported last, as pages for Prometheus.
//!
//! ```text
//! Request → names, labels → families of series → page
//! ```
//!
//! Names, labels and values are those that a Prometheus with `otel-config/prometheus/otlp.yaml` gives the same
//! requests. A series ends once it has not been exported for a while, as in Prometheus.

mod family;
mod labels;
mod names;
mod page;
mod value;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric};
use tracing::warn;

use self::family::Family;
use self::labels::ResourceLabels;
use self::names::{Kind, metric_name};
pub use self::page::Format;
use self::page::Page;
use self::value::SeriesValue;
use crate::request::Request;

/// How long a series stays without an export: as long as Prometheus looks back, or for two exports.
const LOOKBACK: Duration = Duration::from_secs(300);

/// Memory for series: about 100,000 of them, which are 2,000 GPUs.
const MAX_BYTES: usize = 64 << 20;

/// The last exported value of each series. Clones share it.
#[derive(Clone, Debug)]
pub struct Exposition(Arc<Mutex<SeriesTable>>);

#[derive(Debug)]
struct SeriesTable {
    /// By the name of the metric.
    families: BTreeMap<String, Family>,
    /// The labels of `target_info` of each resource, and when it was last exported.
    targets: BTreeMap<String, Instant>,
    bytes: usize,
    max_bytes: usize,
    expires_after: Duration,
    /// When series were last removed.
    expired: Option<Instant>,
    has_warned: bool,
}

impl Exposition {
    /// An empty one, for metrics that are exported this often.
    #[must_use]
    pub fn new(export_interval: Duration) -> Self {
        Self::with_limit(export_interval, MAX_BYTES)
    }

    fn with_limit(export_interval: Duration, max_bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(SeriesTable {
            families: BTreeMap::new(),
            targets: BTreeMap::new(),
            bytes: 0,
            max_bytes,
            expires_after: LOOKBACK.max(export_interval.saturating_mul(2)),
            expired: None,
            has_warned: false,
        })))
    }

    /// Records what is exported, if it is metrics.
    pub fn record(&self, request: &Request, now: Instant) {
        if let Request::Metrics(request) = request {
            self.table().record(request, now);
        }
    }

    /// The page of all series that are current.
    #[must_use]
    pub fn page(&self, format: Format, now: Instant) -> String {
        let mut table = self.table();
        table.expire(now);
        let mut page = Page::new(format, table.bytes);
        table.families.iter().for_each(|(name, family)| page.add(name, family));
        page.add_targets(table.targets.keys());
        page.finish()
    }

    fn table(&self) -> MutexGuard<'_, SeriesTable> {
        // It is valid after each change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeriesTable {
    fn record(&mut self, request: &ExportMetricsServiceRequest, now: Instant) {
        // What nobody asks for expires, too.
        if self.expired.is_none_or(|at| now.saturating_duration_since(at) >= LOOKBACK / 5) {
            self.expire(now);
        }
        for of_resource in &request.resource_metrics {
            let attributes = of_resource.resource.as_ref().map(|it| &it.attributes[..]);
            let resource = ResourceLabels::of(attributes.unwrap_or_default());
            let metrics = of_resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
            metrics.for_each(|metric| self.add(metric, &resource, now));
            if let Some(target) = resource.target() {
                self.add_target(target, now);
            }
        }
    }

    fn add(&mut self, metric: &Metric, resource: &ResourceLabels, now: Instant) {
        let delta = AggregationTemporality::Delta as i32;
        let (kind, is_delta) = match &metric.data {
            Some(Data::Sum(sum)) if sum.is_monotonic => {
                (Kind::Counter, sum.aggregation_temporality == delta)
            }
            Some(Data::Sum(sum)) => (Kind::UpDown, sum.aggregation_temporality == delta),
            Some(Data::Gauge(_)) => (Kind::Gauge, false),
            Some(Data::Histogram(it)) => (Kind::Histogram, it.aggregation_temporality == delta),
            // Text has no native histograms.
            Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => return,
        };
        let name = metric_name(&metric.name, &metric.unit, kind);
        if name.is_empty() {
            return;
        }
        let numbers = match &metric.data {
            Some(Data::Sum(sum)) => &sum.data_points[..],
            Some(Data::Gauge(gauge)) => &gauge.data_points[..],
            _ => &[],
        };
        let histograms = match &metric.data {
            Some(Data::Histogram(histogram)) => &histogram.data_points[..],
            _ => &[],
        };
        let numbers = numbers.iter().map(|it| (&it.attributes, SeriesValue::of_number(it)));
        let histograms =
            histograms.iter().map(|it| (&it.attributes, SeriesValue::of_histogram(it)));
        let points: Vec<(&Vec<KeyValue>, _)> = numbers.chain(histograms).collect();

        let new = || Family::new(kind, metric.description.clone());
        let family = self.families.entry(name).or_insert_with(new);
        // A page has a metric once.
        if family.kind != kind {
            return;
        }
        let mut is_full = false;
        for (attributes, value) in points {
            let Some(value) = value else { continue };
            let (labels, free) = (resource.of_series(attributes), self.max_bytes - self.bytes);
            match family.set(labels, value, is_delta, now, free) {
                Some(bytes) => self.bytes += bytes,
                None => is_full = true,
            }
        }
        if is_full {
            self.warn_once();
        }
    }

    fn add_target(&mut self, labels: String, now: Instant) {
        if let Some(seen) = self.targets.get_mut(&labels) {
            *seen = now;
        } else if labels.len() <= self.max_bytes - self.bytes {
            self.bytes += labels.len();
            self.targets.insert(labels, now);
        } else {
            self.warn_once();
        }
    }

    fn expire(&mut self, now: Instant) {
        self.expired = Some(now);
        let after = self.expires_after;
        for family in self.families.values_mut() {
            self.bytes -= family.expire(now, after);
        }
        self.families.retain(|_, family| !family.series.is_empty());
        self.targets.retain(|labels, seen| {
            let is_current = now.saturating_duration_since(*seen) <= after;
            self.bytes -= if is_current { 0 } else { labels.len() };
            is_current
        });
    }

    fn warn_once(&mut self) {
        if !self.has_warned {
            self.has_warned = true;
            let mib = self.max_bytes >> 20;
            warn!(
                "/metrics is incomplete: its series have {mib} MiB; export OTLP, or a smaller set by --metrics"
            );
        }
    }
}

#[cfg(test)]
mod tests;
