//! The items of a request: spans, data points and log records, each under its resource, its scope
//! and, if it is a data point, its metric. Counts them, and splits them into two requests.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

/// An item, or a group of items with what they have in common.
pub trait Items: Sized {
    /// The number of items.
    fn count(&self) -> usize;

    /// Keeps the first `at` items, and returns the others under the same resource, scope and metric.
    fn split_after(&mut self, at: usize) -> Self;
}

impl<T: Items> Items for Vec<T> {
    fn count(&self) -> usize {
        self.iter().map(Items::count).sum()
    }

    fn split_after(&mut self, at: usize) -> Self {
        let mut left = at;
        let is_beyond = |group: &T| match left.checked_sub(group.count()) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        let whole = self.iter().position(is_beyond).unwrap_or(self.len());
        let mut others = self.split_off(whole);
        if left > 0
            && let Some(group) = others.first_mut()
        {
            let rest = group.split_after(left);
            self.push(std::mem::replace(group, rest));
        }
        others
    }
}

/// Implements [`Items`] for single items.
macro_rules! items {
    ($($item:ident),*) => {$(
        impl Items for $item {
            fn count(&self) -> usize {
                1
            }

            fn split_after(&mut self, _: usize) -> Self {
                std::mem::take(self)
            }
        }
    )*};
}

/// Implements [`Items`] for messages with one list of items, and fields that apply to all of them.
macro_rules! groups {
    ($($group:ident { $items:ident $(, $common:ident)* })*) => {$(
        impl Items for $group {
            fn count(&self) -> usize {
                self.$items.count()
            }

            fn split_after(&mut self, at: usize) -> Self {
                Self {
                    $items: self.$items.split_after(at),
                    $($common: self.$common.clone(),)*
                }
            }
        }
    )*};
}

items!(
    Span,
    LogRecord,
    NumberDataPoint,
    HistogramDataPoint,
    ExponentialHistogramDataPoint,
    SummaryDataPoint
);

groups! {
    ExportTraceServiceRequest { resource_spans }
    ResourceSpans { scope_spans, resource, schema_url }
    ScopeSpans { spans, scope, schema_url }
    ExportLogsServiceRequest { resource_logs }
    ResourceLogs { scope_logs, resource, schema_url }
    ScopeLogs { log_records, scope, schema_url }
    ExportMetricsServiceRequest { resource_metrics }
    ResourceMetrics { scope_metrics, resource, schema_url }
    ScopeMetrics { metrics, scope, schema_url }
    Gauge { data_points }
    Sum { data_points, aggregation_temporality, is_monotonic }
    Histogram { data_points, aggregation_temporality }
    ExponentialHistogram { data_points, aggregation_temporality }
    Summary { data_points }
}

impl Items for Metric {
    fn count(&self) -> usize {
        self.data.as_ref().map_or(0, Items::count)
    }

    fn split_after(&mut self, at: usize) -> Self {
        Self {
            name: self.name.clone(),
            description: self.description.clone(),
            unit: self.unit.clone(),
            metadata: self.metadata.clone(),
            data: self.data.as_mut().map(|data| data.split_after(at)),
        }
    }
}

impl Items for Data {
    fn count(&self) -> usize {
        match self {
            Self::Gauge(gauge) => gauge.count(),
            Self::Sum(sum) => sum.count(),
            Self::Histogram(histogram) => histogram.count(),
            Self::ExponentialHistogram(histogram) => histogram.count(),
            Self::Summary(summary) => summary.count(),
        }
    }

    fn split_after(&mut self, at: usize) -> Self {
        match self {
            Self::Gauge(gauge) => Self::Gauge(gauge.split_after(at)),
            Self::Sum(sum) => Self::Sum(sum.split_after(at)),
            Self::Histogram(histogram) => Self::Histogram(histogram.split_after(at)),
            Self::ExponentialHistogram(it) => Self::ExponentialHistogram(it.split_after(at)),
            Self::Summary(summary) => Self::Summary(summary.split_after(at)),
        }
    }
}
