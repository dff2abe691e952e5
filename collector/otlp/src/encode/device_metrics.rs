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
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, PPM, Timestamp};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::health::Health;
use super::instruments as metrics;
use super::values::{Start, double, integer, text, weighted_seconds, whole};
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
    /// In milliwatts, also if it was measured before the last export.
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
        for ((component, quantity), mean) in mem::take(&mut self.means) {
            let Mean { weighted, time } = mean;
            if time > Nanos::ZERO {
                let mean = weighted_seconds(weighted) / time.as_secs_f64();
                add_mean(component, quantity, mean, export, batch);
            }
        }
        for ((component, quantity), rise) in &self.counters {
            add_counter(*component, *quantity, rise.by, export, batch);
        }
        let values = mem::take(&mut self.values);
        for ((component, quantity), value) in &values {
            let total = values.get(&(*component, Quantity::MemoryTotal)).copied();
            add_value(*component, *quantity, *value, total, export, batch);
        }
        if let Some(limit) = self.power_limit.filter(|_| export.responds()) {
            let watts = limit as f64 / 1e3;
            let point = double(Start::NONE, vec![export.attributes.id()], watts);
            batch.add_hardware(export.host, &metrics::POWER_LIMIT, point);
        }
        for (code, count) in &self.xids {
            let attributes = vec![export.attributes.id(), whole(attribute::GPU_XID_CODE, *code)];
            let point = integer(export.start(), attributes, *count);
            batch.add_hardware(export.host, &metrics::XID, point);
        }
        self.health.add_points(export, batch);
    }
}

fn add_mean(
    component: Component,
    quantity: Quantity,
    mean: f64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let since = Start::at(export.since);
    let attributes = match component {
        Component::Gpu => vec![export.attributes.id()],
        part => export.attributes.component(part),
    };
    let of_video = |task| {
        let mut attributes = export.attributes.gpu();
        attributes.push(text("hw.gpu.task", task));
        (&metrics::HW_UTILIZATION_OF_VIDEO, attributes)
    };
    let (streams, attributes) = match quantity {
        Quantity::SmActivity => (&metrics::SM_ACTIVITY, attributes),
        Quantity::TensorActivity => (&metrics::TENSOR_ACTIVITY, attributes),
        Quantity::DramActivity => (&metrics::DRAM_ACTIVITY, attributes),
        Quantity::Encoder => of_video("encoder"),
        Quantity::Decoder => of_video("decoder"),
        _ => return,
    };
    batch.add_hardware(export.host, streams, double(since, attributes, mean));
}

fn add_counter(
    component: Component,
    quantity: Quantity,
    by: u64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    match quantity {
        Quantity::PcieReceived | Quantity::NvlinkReceived => {
            add_traffic(component, "receive", by, export, batch);
        }
        Quantity::PcieTransmitted | Quantity::NvlinkTransmitted => {
            add_traffic(component, "transmit", by, export, batch);
        }
        Quantity::CorrectedErrors => add_errors(component, "corrected", by, export, batch),
        Quantity::MemoryErrors => add_errors(component, "uncorrected", by, export, batch),
        Quantity::LinkReplays => add_errors(component, "replay", by, export, batch),
        Quantity::PcieCorrectable => add_errors(component, "correctable", by, export, batch),
        Quantity::LinkRecoveries => add_errors(component, "recovery", by, export, batch),
        Quantity::LinkCrcErrors => add_errors(component, "crc", by, export, batch),
        reason if Quantity::THROTTLING.contains(&reason) => {
            add_throttling(reason.name(), by, export, batch);
        }
        _ => {}
    }
}

fn add_throttling(reason: &str, nanos: u64, export: &GpuSnapshot, batch: &mut Batch) {
    let attributes = export.attributes.own(attribute::THROTTLE_REASON, reason);
    let seconds = nanos as f64 / NANOS_PER_SECOND as f64;
    let point = double(export.start(), attributes, seconds);
    batch.add_hardware(export.host, &metrics::THROTTLE_TIME, point);
}

/// Adds traffic of a link; that of the PCIe link is the GPU's.
fn add_traffic(
    component: Component,
    direction: &str,
    bytes: u64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let (instrument, mut attributes) = match component {
        Component::Pcie => (&metrics::HW_IO, export.attributes.gpu()),
        link => (&metrics::HW_NETWORK_IO, export.attributes.component(link)),
    };
    attributes.push(text("network.io.direction", direction));
    batch.add_hardware(export.host, instrument, integer(export.start(), attributes, bytes));
}

/// Adds errors of the GPU or of a link.
fn add_errors(
    component: Component,
    kind: &str,
    count: u64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let (hardware, streams) = match component {
        Component::Gpu => ("gpu", &metrics::HW_ERRORS),
        _ => ("network", &metrics::HW_ERRORS_OF_LINKS),
    };
    let mut attributes = export.attributes.component(component);
    attributes.extend([text("hw.type", hardware), text("error.type", kind)]);
    batch.add_hardware(export.host, streams, integer(export.start(), attributes, count));
}

/// Adds the last value of a quantity. `memory`: the memory of the component.
fn add_value(
    component: Component,
    quantity: Quantity,
    value: i64,
    memory: Option<i64>,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let mut attributes = export.attributes.component(component);
    let (host, sum) = (export.host, export.start());
    match quantity {
        Quantity::MemoryTemperature => {
            attributes.push(text("hw.sensor_location", "memory"));
            let point = double(Start::NONE, attributes, value as f64);
            batch.add_hardware(host, &metrics::HW_TEMPERATURE_OF_MEMORY, point);
        }
        Quantity::FanSpeed => {
            let point = double(Start::NONE, attributes, value as f64 / f64::from(PPM));
            batch.add_hardware(host, &metrics::HW_FAN_SPEED, point);
        }
        Quantity::MemoryTotal => {
            let point = integer(sum, attributes, value.unsigned_abs());
            batch.add_hardware(host, &metrics::HW_MEMORY_LIMIT, point);
        }
        Quantity::MemoryUsed => {
            let point = integer(sum, attributes.clone(), value.unsigned_abs());
            batch.add_hardware(host, &metrics::HW_MEMORY_USAGE, point);
            if let Some(total) = memory {
                let point = double(Start::NONE, attributes, value as f64 / total as f64);
                batch.add_hardware(host, &metrics::HW_MEMORY_UTILIZATION, point);
            }
        }
        _ => {}
    }
}
