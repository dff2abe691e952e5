//! Points of device metrics: activity, throttling, traffic, errors, temperatures, fans and limits.
//!
//! A metric counts once the readings have reached its timestamp, so that an export contains what
//! precedes it. The gauge of an activity is the time-weighted mean since the last export, each
//! interval counted at its end; other gauges are the last value since then; a sum is the increase of
//! a counter since its first value.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use phasemeter_meter::device_metric::{
    Component, Counter, DeviceMetric, DeviceValue, Engine, Gauge,
};
use phasemeter_meter::reading::Reading;
use phasemeter_meter::rise::Rise;
use phasemeter_meter::units::{Bytes, Milliwatts, NANOS_PER_SECOND, Nanos, Timestamp};

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
    activities: BTreeMap<(Component, Engine), Mean>,
    counters: BTreeMap<(Component, Counter), Increase>,
    /// The last gauges since the last export.
    gauges: Vec<LastGauge>,
    power_limit: Option<Milliwatts>,
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

/// The last value of a gauge.
#[derive(Clone, Copy, Debug)]
struct LastGauge {
    component: Component,
    gauge: Gauge,
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
        let DeviceMetric { at, component, value } = *metric;
        match value {
            DeviceValue::Activity { engine, from, mean } => {
                let known = self.activities.entry((component, engine)).or_default();
                let time = at.since(from);
                known.weighted += u128::from(mean.ppm()) * u128::from(time.0);
                known.time += time;
            }
            DeviceValue::Count { counter, total } => {
                let first = Increase { last: total, by: 0 };
                let known = self.counters.entry((component, counter)).or_insert(first);
                let rise = Rise::between(known.last, total).counted();
                *known = Increase { last: total, by: known.by.saturating_add(rise) };
                self.health.record_counter(counter, rise > 0);
            }
            DeviceValue::RowRemapping { pending, failed } => {
                self.health.record_row_remapping(pending, failed);
            }
            DeviceValue::PowerLimit(limit) => self.power_limit = Some(limit),
            DeviceValue::Gauge(gauge) => {
                let last = LastGauge { component, gauge };
                let stream = |it: &LastGauge| (it.component, mem::discriminant(&it.gauge));
                match self.gauges.iter_mut().find(|known| stream(known) == stream(&last)) {
                    Some(known) => *known = last,
                    None => self.gauges.push(last),
                }
            }
        }
    }

    /// Adds the points of one export.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        for ((component, engine), mean) in mem::take(&mut self.activities) {
            let Mean { weighted, time } = mean;
            if time > Nanos::ZERO {
                let mean = weighted_seconds(weighted) / time.as_secs_f64();
                add_activity(component, engine, mean, export, batch);
            }
        }
        for ((component, counter), rise) in &self.counters {
            add_counter(*component, *counter, rise.by, export, batch);
        }
        for last in mem::take(&mut self.gauges) {
            add_gauge(&last, export, batch);
        }
        if let Some(limit) = self.power_limit.filter(|_| export.responds()) {
            let point = double(Start::NONE, vec![export.attributes.id()], limit.watts());
            batch.add_hardware(export.host, &metrics::POWER_LIMIT, point);
        }
        for (code, count) in &self.xids {
            let attributes = vec![export.attributes.id(), whole(attribute::GPU_XID_CODE, *code)];
            let point = integer(export.start, attributes, *count);
            batch.add_hardware(export.host, &metrics::XID, point);
        }
        self.health.add_points(export, batch);
    }
}

fn add_activity(
    component: Component,
    engine: Engine,
    mean: f64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let since = Start::at(export.since);
    let attributes = match component {
        Component::Gpu => vec![export.attributes.id()],
        part => export.attributes.component(part),
    };
    let (streams, attributes) = match engine {
        Engine::Sm => (&metrics::SM_ACTIVITY, attributes),
        Engine::Tensor => (&metrics::TENSOR_ACTIVITY, attributes),
        Engine::Dram => (&metrics::DRAM_ACTIVITY, attributes),
        Engine::Encoder | Engine::Decoder => {
            let task = if engine == Engine::Encoder { "encoder" } else { "decoder" };
            let mut attributes = export.attributes.gpu();
            attributes.push(text("hw.gpu.task", task));
            (&metrics::HW_UTILIZATION_OF_VIDEO, attributes)
        }
    };
    batch.add_hardware(export.host, streams, double(since, attributes, mean));
}

fn add_counter(
    component: Component,
    counter: Counter,
    by: u64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    match counter {
        Counter::PowerCap => add_throttling("sw_power_cap", by, export, batch),
        Counter::SyncBoost => add_throttling("sync_boost", by, export, batch),
        Counter::SoftwareThermal => add_throttling("sw_thermal", by, export, batch),
        Counter::HardwareThermal => add_throttling("hw_thermal", by, export, batch),
        Counter::PowerBrake => add_throttling("hw_power_brake", by, export, batch),
        Counter::Received => add_traffic(component, "receive", by, export, batch),
        Counter::Transmitted => add_traffic(component, "transmit", by, export, batch),
        Counter::Corrected => add_errors(component, "corrected", by, export, batch),
        Counter::Uncorrected => add_errors(component, "uncorrected", by, export, batch),
        Counter::Replays => add_errors(component, "replay", by, export, batch),
        Counter::Recoveries => add_errors(component, "recovery", by, export, batch),
        Counter::CrcErrors => add_errors(component, "crc", by, export, batch),
    }
}

fn add_throttling(reason: &str, nanos: u64, export: &GpuSnapshot, batch: &mut Batch) {
    let attributes = export.attributes.own(attribute::THROTTLE_REASON, reason);
    let seconds = nanos as f64 / NANOS_PER_SECOND as f64;
    let point = double(export.start, attributes, seconds);
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
    batch.add_hardware(export.host, instrument, integer(export.start, attributes, bytes));
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
    batch.add_hardware(export.host, streams, integer(export.start, attributes, count));
}

/// Adds the last value of a gauge.
fn add_gauge(last: &LastGauge, export: &GpuSnapshot, batch: &mut Batch) {
    let mut attributes = export.attributes.component(last.component);
    let host = export.host;
    match last.gauge {
        Gauge::MemoryTemperature(temperature) => {
            attributes.push(text("hw.sensor_location", "memory"));
            let celsius = f64::from(temperature.0);
            batch.add_hardware(
                host,
                &metrics::HW_TEMPERATURE_OF_MEMORY,
                double(Start::NONE, attributes, celsius),
            );
        }
        Gauge::FanSpeed(percent) => {
            let ratio = f64::from(percent) / 100.0;
            batch.add_hardware(
                host,
                &metrics::HW_FAN_SPEED,
                double(Start::NONE, attributes, ratio),
            );
        }
        Gauge::Memory { used, total } => {
            let sum = export.start;
            let [used, total] = [used, total].map(Bytes::get);
            batch.add_hardware(
                host,
                &metrics::HW_MEMORY_LIMIT,
                integer(sum, attributes.clone(), total),
            );
            batch.add_hardware(
                host,
                &metrics::HW_MEMORY_USAGE,
                integer(sum, attributes.clone(), used),
            );
            if total > 0 {
                let point = double(Start::NONE, attributes, used as f64 / total as f64);
                batch.add_hardware(host, &metrics::HW_MEMORY_UTILIZATION, point);
            }
        }
    }
}
