//! Delta temporality: a point is the increase since the previous point of its stream.
//!
//! Meters count from their first reading, so each stream's last total is kept here.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint,
};
use phasemeter_meter::units::NANOS_PER_SECOND;
use prost::Message;

use crate::names::attribute;

/// The last totals of all streams.
#[derive(Clone, Debug, Default)]
pub(super) struct LastTotals {
    numbers: HashMap<(&'static str, StreamKey), NumberDataPoint>,
    explicit: HashMap<StreamKey, HistogramDataPoint>,
    exponential: HashMap<StreamKey, ExponentialHistogramDataPoint>,
    /// The number of numbers that were left when streams were dropped last.
    left: usize,
}

/// The encoded attributes of a stream.
type StreamKey = Vec<u8>;

/// How long a stream of a holder is kept after its last point. Those of holders that exist have a point per export.
const KEPT: u64 = 3_600 * NANOS_PER_SECOND;

/// Streams are dropped if there are this many, and each time there are twice as many as were left.
const MIN_STREAMS: usize = 4_096;

impl LastTotals {
    /// Converts a total of this metric to its increase.
    pub(super) fn convert_number(&mut self, metric: &'static str, point: &mut NumberDataPoint) {
        let key = (metric, key(&point.attributes));
        let total =
            NumberDataPoint { attributes: Vec::new(), exemplars: Vec::new(), ..point.clone() };
        if self.numbers.len() >= MIN_STREAMS.max(2 * self.left) {
            self.drop_ended(point.time_unix_nano);
        }
        let Some(last) = self.numbers.insert(key, total) else { return };
        if last.start_time_unix_nano == point.start_time_unix_nano {
            point.start_time_unix_nano = last.time_unix_nano;
            subtract_number(point, &last);
        }
    }

    /// Records a total of this metric.
    pub(super) fn record_number(&mut self, metric: &'static str, point: &NumberDataPoint) {
        self.numbers.insert((metric, key(&point.attributes)), point.clone());
    }

    /// Records a histogram with explicit buckets.
    pub(super) fn record_explicit(&mut self, point: &HistogramDataPoint) {
        self.explicit.insert(key(&point.attributes), point.clone());
    }

    /// Records a histogram with exponential buckets.
    pub(super) fn record_exponential(&mut self, point: &ExponentialHistogramDataPoint) {
        self.exponential.insert(key(&point.attributes), point.clone());
    }

    /// Subtracts the recorded total of the same stream, if there is one.
    pub(super) fn subtract_from_number(&self, metric: &'static str, point: &mut NumberDataPoint) {
        if let Some(last) = self.numbers.get(&(metric, key(&point.attributes))) {
            subtract_number(point, last);
        }
    }

    /// Subtracts the recorded histogram of the same stream, if there is one.
    pub(super) fn subtract_from_explicit(&self, point: &mut HistogramDataPoint) {
        if let Some(last) = self.explicit.get(&key(&point.attributes)) {
            subtract_explicit(point, last);
        }
    }

    /// Subtracts the recorded histogram of the same stream, if there is one.
    pub(super) fn subtract_from_exponential(&self, point: &mut ExponentialHistogramDataPoint) {
        if let Some(last) = self.exponential.get(&key(&point.attributes)) {
            subtract_exponential(point, last);
        }
    }

    /// Drops the streams of holders that have had no point for long: holders come and go.
    fn drop_ended(&mut self, now: u64) {
        let holder = attribute::ALLOCATION_ACCOUNT.as_bytes();
        let is_of_holder = |key: &[u8]| key.windows(holder.len()).any(|part| part == holder);
        self.numbers.retain(|(_, key), last| {
            last.time_unix_nano.saturating_add(KEPT) >= now || !is_of_holder(key)
        });
        self.left = self.numbers.len();
    }

    /// Converts a histogram with explicit buckets to its increase.
    pub(super) fn convert_explicit(&mut self, point: &mut HistogramDataPoint) {
        let key = key(&point.attributes);
        let total = HistogramDataPoint {
            attributes: Vec::new(),
            exemplars: Vec::new(),
            explicit_bounds: Vec::new(),
            ..point.clone()
        };
        let Some(last) = self.explicit.insert(key, total) else { return };
        if last.start_time_unix_nano == point.start_time_unix_nano {
            point.start_time_unix_nano = last.time_unix_nano;
            subtract_explicit(point, &last);
        }
    }

    /// Converts a histogram with exponential buckets, whose scale never changes, to its increase.
    pub(super) fn convert_exponential(&mut self, point: &mut ExponentialHistogramDataPoint) {
        let key = key(&point.attributes);
        let total = ExponentialHistogramDataPoint {
            attributes: Vec::new(),
            exemplars: Vec::new(),
            ..point.clone()
        };
        let Some(last) = self.exponential.insert(key, total) else { return };
        if last.start_time_unix_nano == point.start_time_unix_nano {
            point.start_time_unix_nano = last.time_unix_nano;
            subtract_exponential(point, &last);
        }
    }
}

fn subtract_number(point: &mut NumberDataPoint, last: &NumberDataPoint) {
    point.value = match (point.value, last.value) {
        (Some(Value::AsInt(total)), Some(Value::AsInt(last))) => {
            Some(Value::AsInt(total.saturating_sub(last)))
        }
        (Some(Value::AsDouble(total)), Some(Value::AsDouble(last))) => {
            Some(Value::AsDouble((total - last).max(0.0)))
        }
        (total, _) => total,
    };
}

fn subtract_explicit(point: &mut HistogramDataPoint, last: &HistogramDataPoint) {
    point.count = point.count.saturating_sub(last.count);
    point.sum = increase(point.sum, last.sum);
    for (count, last) in point.bucket_counts.iter_mut().zip(&last.bucket_counts) {
        *count = count.saturating_sub(*last);
    }
}

fn subtract_exponential(
    point: &mut ExponentialHistogramDataPoint,
    last: &ExponentialHistogramDataPoint,
) {
    point.count = point.count.saturating_sub(last.count);
    point.sum = increase(point.sum, last.sum);
    point.zero_count = point.zero_count.saturating_sub(last.zero_count);
    if let (Some(buckets), Some(last)) = (&mut point.positive, &last.positive) {
        subtract_buckets(buckets, last);
    }
}

fn key(attributes: &[KeyValue]) -> StreamKey {
    attributes.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
}

fn increase(total: Option<f64>, last: Option<f64>) -> Option<f64> {
    Some((total? - last.unwrap_or_default()).max(0.0))
}

/// Subtracts counts by bucket index: the first bucket of the total can lie before that of the last.
fn subtract_buckets(buckets: &mut Buckets, last: &Buckets) {
    for (index, last) in (last.offset..).zip(&last.bucket_counts) {
        let place = usize::try_from(index - buckets.offset).ok();
        if let Some(count) = place.and_then(|place| buckets.bucket_counts.get_mut(place)) {
            *count = count.saturating_sub(*last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_subtracted_by_index() {
        let buckets = |offset, counts: &[u64]| Buckets { offset, bucket_counts: counts.to_vec() };
        let mut total = buckets(-20, &[1, 0, 5, 7]);
        subtract_buckets(&mut total, &buckets(-18, &[5, 3]));
        assert_eq!(total, buckets(-20, &[1, 0, 0, 4]));
    }

    /// Energy on another basis is another sum, which starts where the previous one ended.
    #[test]
    fn sum_with_another_start_is_exported_whole() {
        let mut totals = LastTotals::default();
        let mut convert = |start_time_unix_nano, time_unix_nano, value| {
            let mut point = NumberDataPoint {
                start_time_unix_nano,
                time_unix_nano,
                value: Some(Value::AsInt(value)),
                ..NumberDataPoint::default()
            };
            totals.convert_number("m", &mut point);
            (point.start_time_unix_nano, point.value)
        };
        assert_eq!(convert(1, 10, 5), (1, Some(Value::AsInt(5))));
        assert_eq!(convert(1, 20, 7), (10, Some(Value::AsInt(2))));
        assert_eq!(convert(20, 30, 4), (20, Some(Value::AsInt(4))));
        assert_eq!(convert(20, 40, 4), (30, Some(Value::AsInt(0))));
    }
}
