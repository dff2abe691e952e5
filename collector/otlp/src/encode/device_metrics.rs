//! Points of device metrics: activity, throttling, traffic, errors, temperatures, fans and limits.
//!
//! A metric counts once the readings have reached its timestamp, so that an export contains what
//! precedes it. The gauge of an activity is the time-weighted mean since the last export, each
//! interval counted at its end; other gauges are the last value since then; a sum is the increase of
//! a counter since its first value.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::rise::Rise;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::health::Health;
use super::instruments as metrics;
use super::stream::{self, Measured};
use super::values::{integer, weighted_seconds, whole};
use crate::names::attribute;

/// Maximum number of metrics that wait for the readings of their time; beyond it the oldest counts
/// early. A GPU emits about 30 per second, and 120 more every ten; readings trail by up to 15 s.
const CAPACITY: usize = 1_024;

/// State between two exports. It is bounded by the number of components, of which only MIG instances
/// come and go; they have no sums.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMetrics {
    waiting: VecDeque<DeviceMetric>,
    means: BTreeMap<(Component, Quantity), Mean>,
    counters: BTreeMap<(Component, Quantity), Increase>,
    /// The last values since the last export.
    values: BTreeMap<(Component, Quantity), i64>,
    /// In milliwatts, even if it was measured before the last export.
    power_limit: Option<i64>,
    /// Occurrences per XID code. There are about two hundred codes.
    xids: BTreeMap<u64, u64>,
    health: Health,
}

/// Activity since the last export.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    /// Σ activity × time in ppm·ns.
    weighted: u128,
    time: Nanos,
}

/// The increase of a counter since its first value.
#[derive(Clone, Copy, Debug)]
struct Increase {
    last: u64,
    by: u64,
}

impl DeviceMetrics {
    /// Accepts a metric.
    pub(super) fn take(&mut self, metric: DeviceMetric) {
        self.waiting.push_back(metric);
        if self.waiting.len() > CAPACITY
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.count(&oldest);
        }
    }

    /// Counts errors reported by the driver at once: the last one can follow the last reading,
    /// and none may be lost. Their event carries the time.
    pub(super) fn count_xids(&mut self, code: u64, count: u64) {
        let sum = self.xids.entry(code).or_default();
        *sum = sum.saturating_add(count);
        self.health.record_xid(code);
    }

    /// Records that errors of the driver would have been reported.
    pub(super) const fn watch_errors(&mut self) {
        self.health.watch();
    }

    /// Records what a reading shows about the health of the GPU.
    pub(super) fn record_reading(&mut self, reading: &Reading) {
        self.health.record_reading(reading);
    }

    /// Records that the GPU responds again.
    pub(super) const fn recover(&mut self) {
        self.health.recover();
    }

    /// Counts the metrics up to `at`, once all readings up to `at` have arrived.
    pub(super) fn settle(&mut self, at: Timestamp) {
        while let Some(next) = self.waiting.pop_front_if(|next| next.at <= at) {
            self.count(&next);
        }
    }

    fn count(&mut self, metric: &DeviceMetric) {
        let DeviceMetric { at, component, quantity, value } = *metric;
        match value {
            DeviceValue::Mean { from, share } => {
                let known = self.means.entry((component, quantity)).or_default();
                let time = at.since(from);
                known.weighted += u128::from(share.ppm()) * u128::from(time.0);
                known.time += time;
            }
            DeviceValue::Total(total) => {
                let first = Increase { last: total, by: 0 };
                let known = self.counters.entry((component, quantity)).or_insert(first);
                let rise = Rise::between(known.last, total).counted();
                *known = Increase { last: total, by: known.by.saturating_add(rise) };
                self.health.record_counter(quantity, rise > 0);
            }
            DeviceValue::Now(value) => match quantity {
                Quantity::RowsPending | Quantity::RowsFailed => {
                    self.health.record_rows(quantity, value > 0);
                }
                Quantity::PowerLimit => self.power_limit = Some(value),
                _ => _ = self.values.insert((component, quantity), value),
            },
        }
    }

    /// Adds the points of one export.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        for (of, Mean { weighted, time }) in mem::take(&mut self.means) {
            if time > Nanos::ZERO {
                let mean = weighted_seconds(weighted) / time.as_secs_f64();
                stream::add(of, Measured::Mean(mean), export, batch);
            }
        }
        for (of, rise) in &self.counters {
            stream::add(*of, Measured::Increase(rise.by), export, batch);
        }
        let values = mem::take(&mut self.values);
        for ((component, quantity), value) in &values {
            stream::add((*component, *quantity), Measured::Last(*value), export, batch);
            let total = values.get(&(*component, Quantity::MemoryTotal));
            if let Some(total) = total.filter(|_| *quantity == Quantity::MemoryUsed) {
                stream::add_memory_utilization(*component, *value, *total, export, batch);
            }
        }
        if let Some(limit) = self.power_limit.filter(|_| export.responds()) {
            let of = (Component::Gpu, Quantity::PowerLimit);
            stream::add(of, Measured::Last(limit), export, batch);
        }
        for (code, count) in &self.xids {
            let attributes = vec![export.attributes.id(), whole(attribute::GPU_XID_CODE, *code)];
            let point = integer(export.start(), attributes, *count);
            batch.add_hardware(export.host, &metrics::XID, point);
        }
        self.health.add_points(export, batch);
    }
}
