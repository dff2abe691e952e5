//! The value of a series: a number, or a histogram with its newest exemplar per bucket.

use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, HistogramDataPoint, NumberDataPoint, exemplar, number_data_point,
};

/// Maximum characters of the names and values of an exemplar's labels, by OpenMetrics.
const MAX_EXEMPLAR: usize = 128;

/// The last exported value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SeriesValue {
    /// Of a sum or gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(Box<HistogramValue>),
}

/// The last exported value of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HistogramValue {
    /// Upper bounds of all buckets but the last.
    pub(super) bounds: Vec<f64>,
    /// Number of values in each bucket alone.
    pub(super) counts: Vec<u64>,
    pub(super) sum: Option<f64>,
    pub(super) count: u64,
    /// The newest exemplar of each bucket, in seconds since 1970.
    pub(super) exemplars: Vec<Option<ExemplarValue>>,
}

/// A value with the span in which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExemplarValue {
    pub(super) trace: String,
    pub(super) span: String,
    pub(super) value: f64,
    pub(super) nanos: u64,
}

impl SeriesValue {
    /// That of a sum or gauge; `None` if it has none.
    pub(super) fn of_number(point: &NumberDataPoint) -> Option<Self> {
        Some(Self::Number(match point.value? {
            number_data_point::Value::AsDouble(value) => value,
            // As Prometheus stores it.
            number_data_point::Value::AsInt(value) => value as f64,
        }))
    }

    /// That of a histogram; `None` if it has no buckets.
    pub(super) fn of_histogram(point: &HistogramDataPoint) -> Option<Self> {
        let (bounds, counts) = (point.explicit_bounds.clone(), point.bucket_counts.clone());
        if counts.len() != bounds.len() + 1 {
            return None;
        }
        let mut exemplars = vec![None; counts.len()];
        for found in point.exemplars.iter().filter_map(ExemplarValue::of) {
            let bucket = bounds.iter().take_while(|bound| found.value > **bound).count();
            if let Some(place) = exemplars.get_mut(bucket) {
                let is_newer = |it: &ExemplarValue| it.nanos <= found.nanos;
                if place.as_ref().is_none_or(is_newer) {
                    *place = Some(found);
                }
            }
        }
        let (sum, count) = (point.sum, point.count);
        Some(Self::Histogram(Box::new(HistogramValue { bounds, counts, sum, count, exemplars })))
    }

    /// Adds what was exported before, if the new value is a difference.
    pub(super) fn add(&mut self, before: &Self) {
        match (self, before) {
            (Self::Number(value), Self::Number(before)) => *value += before,
            (Self::Histogram(value), Self::Histogram(before)) if value.bounds == before.bounds => {
                for (count, before) in value.counts.iter_mut().zip(&before.counts) {
                    *count += before;
                }
                value.count += before.count;
                value.sum = value.sum.zip(before.sum).map(|(sum, before)| sum + before);
            }
            _ => {}
        }
    }

    /// Its size in memory, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            // A bound, a count, and an exemplar with its IDs.
            Self::Histogram(value) => value.counts.len() * 160,
        }
    }
}

impl ExemplarValue {
    fn of(exemplar: &Exemplar) -> Option<Self> {
        let value = match exemplar.value? {
            exemplar::Value::AsDouble(value) => value,
            exemplar::Value::AsInt(value) => value as f64,
        };
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (trace, span) = (hex(&exemplar.trace_id), hex(&exemplar.span_id));
        let is_short = "trace_idspan_id".len() + trace.len() + span.len() <= MAX_EXEMPLAR;
        let found = Self { trace, span, value, nanos: exemplar.time_unix_nano };
        (is_short && !exemplar.trace_id.is_empty()).then_some(found)
    }
}
