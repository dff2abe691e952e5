//! Points of device metrics: activity, throttling, traffic and errors.
//!
//! A metric counts once the readings have reached its timestamp, so that an export contains what
//! precedes it. A gauge is the time-weighted mean since the last export, each interval counted at
//! its end; a sum is the increase of a counter since its first value. Must not depend on how a
//! metric was measured.

use std::collections::{BTreeMap, VecDeque};

use phasemeter_meter::device_metric::{Counter, DeviceMetric, DeviceValue, Engine};
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::health::Health;
use super::instruments as metrics;
use super::values::{PointTime, double, integer, text, weighted_seconds, whole};

/// Maximum number of metrics that wait for the readings of their time; beyond it the oldest counts
/// early. A GPU emits two dozen per second, and readings trail by up to 15 s.
const CAPACITY: usize = 1_024;

/// State between two exports, in constant memory.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMetrics {
    waiting: VecDeque<DeviceMetric>,
    activities: [Mean; Engine::ALL.len()],
    counters: [Option<Rise>; Counter::ALL.len()],
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
struct Rise {
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

    /// Counts an error reported by the driver at once: the last one can follow the last reading,
    /// and none may be lost. Its event carries the time.
    pub(super) fn count_xid(&mut self, code: u64) {
        *self.xids.entry(code).or_default() += 1;
        self.health.record_xid(code);
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
        match metric.value {
            DeviceValue::Activity { engine, from, mean } => {
                if let Some(known) = self.activities.get_mut(engine as usize) {
                    let time = metric.at.since(from);
                    known.weighted += u128::from(mean.ppm()) * u128::from(time.0);
                    known.time += time;
                }
            }
            DeviceValue::Count { counter, total } => {
                if let Some(known) = self.counters.get_mut(counter as usize) {
                    let Rise { last, by } = known.unwrap_or(Rise { last: total, by: 0 });
                    // A counter that falls was reset with its driver.
                    let rise = total.checked_sub(last).unwrap_or(total);
                    *known = Some(Rise { last: total, by: by.saturating_add(rise) });
                    if rise > 0 {
                        self.health.record_rise(counter);
                    }
                }
            }
            DeviceValue::RowRemapping { pending, failed } => {
                self.health.record_row_remapping(pending, failed);
            }
        }
    }

    /// Adds the points of one export.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        for (engine, mean) in Engine::ALL.into_iter().zip(&mut self.activities) {
            let Mean { weighted, time } = std::mem::take(mean);
            if time > Nanos::ZERO {
                add_activity(
                    engine,
                    weighted_seconds(weighted) / time.as_secs_f64(),
                    export,
                    batch,
                );
            }
        }
        for (counter, rise) in Counter::ALL.into_iter().zip(&self.counters) {
            if let Some(rise) = rise {
                add_counter(counter, rise.by, export, batch);
            }
        }
        for (code, count) in &self.xids {
            let attributes = vec![export.attributes.id(), whole("phasemeter.gpu.xid.code", *code)];
            batch.workload.add(&metrics::XID, integer(export.when, attributes, *count));
        }
        self.health.add_points(export, batch);
    }
}

fn add_activity(engine: Engine, mean: f64, export: &GpuSnapshot, batch: &mut Batch) {
    let when = PointTime { start: export.since.as_nanos(), ..export.when };
    let ours = || double(when, vec![export.attributes.id()], mean);
    let hardware = |task| {
        let mut attributes = export.attributes.gpu();
        attributes.push(text("hw.gpu.task", task));
        double(when, attributes, mean)
    };
    match engine {
        Engine::Sm => batch.workload.add(&metrics::SM_ACTIVITY, ours()),
        Engine::Tensor => batch.workload.add(&metrics::TENSOR_ACTIVITY, ours()),
        Engine::Dram => batch.workload.add(&metrics::DRAM_ACTIVITY, ours()),
        Engine::Encoder => batch.hardware.add(&metrics::HW_UTILIZATION, hardware("encoder")),
        Engine::Decoder => batch.hardware.add(&metrics::HW_UTILIZATION, hardware("decoder")),
    }
}

fn add_counter(counter: Counter, by: u64, export: &GpuSnapshot, batch: &mut Batch) {
    let (when, attributes) = (export.when, export.attributes);
    let mut throttle = |reason| {
        let attributes = attributes.own("phasemeter.throttle.reason", reason);
        let seconds = by as f64 / NANOS_PER_SECOND as f64;
        batch.workload.add(&metrics::THROTTLE_TIME, double(when, attributes, seconds));
    };
    match counter {
        Counter::PowerCap => throttle("sw_power_cap"),
        Counter::SyncBoost => throttle("sync_boost"),
        Counter::SoftwareThermal => throttle("sw_thermal"),
        Counter::HardwareThermal => throttle("hw_thermal"),
        Counter::PowerBrake => throttle("hw_power_brake"),
        Counter::Received | Counter::Transmitted => {
            let direction = if counter == Counter::Received { "receive" } else { "transmit" };
            let mut attributes = attributes.gpu();
            attributes.push(text("network.io.direction", direction));
            batch.hardware.add(&metrics::HW_IO, integer(when, attributes, by));
        }
        Counter::Corrected | Counter::Uncorrected => {
            let corrected = counter == Counter::Corrected;
            let kind = if corrected { "corrected" } else { "uncorrected" };
            let mut attributes = attributes.hardware("hw.type", "gpu");
            attributes.push(text("error.type", kind));
            batch.hardware.add(&metrics::HW_ERRORS, integer(when, attributes, by));
        }
    }
}
