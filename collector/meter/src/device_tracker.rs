//! Derives the device state of a live reading from the device metrics before it.
//!
//! Metrics are polled less often than utilization, so a reading carries the last values, as those of
//! other metrics.

use std::collections::BTreeMap;

use crate::device_metric::{Component, Counter, DeviceMetric, DeviceValue, Engine, Gauge};
use crate::device_state::{DeviceColumn, DeviceState};
use crate::rise::Rise;
use crate::units::{Nanos, PPM, Timestamp, Utilization};

/// How long an activity describes the present. It is measured five times a second.
const STALE_AFTER: Nanos = Nanos::SECOND;

/// The last device metrics of a GPU.
#[derive(Clone, Debug, Default)]
pub struct DeviceTracker {
    state: DeviceState,
    activity_until: Timestamp,
    counters: BTreeMap<Counter, (Timestamp, u64)>,
}

impl DeviceTracker {
    /// Records a metric. Metrics of one kind arrive in time order.
    pub fn record(&mut self, metric: &DeviceMetric) {
        let DeviceMetric { at, component, value } = *metric;
        match (component, value) {
            (Component::Gpu, DeviceValue::Activity { engine, mean, .. }) => {
                let column = match engine {
                    Engine::Sm => DeviceColumn::Sm,
                    Engine::Tensor => DeviceColumn::Tensor,
                    Engine::Dram => DeviceColumn::Dram,
                    Engine::Encoder => DeviceColumn::Encoder,
                    Engine::Decoder => DeviceColumn::Decoder,
                };
                self.state.set_share(column, Some(mean));
                if matches!(engine, Engine::Sm | Engine::Tensor | Engine::Dram) {
                    self.activity_until = at + STALE_AFTER;
                }
            }
            (Component::Gpu, DeviceValue::Count { counter, total }) => {
                let column = match counter {
                    Counter::PowerCap => DeviceColumn::PowerCap,
                    Counter::SyncBoost => DeviceColumn::SyncBoost,
                    Counter::SoftwareThermal => DeviceColumn::SoftwareThermal,
                    Counter::HardwareThermal => DeviceColumn::HardwareThermal,
                    Counter::PowerBrake => DeviceColumn::PowerBrake,
                    Counter::Uncorrected => {
                        let total = u32::try_from(total).unwrap_or(u32::MAX);
                        return self.state.set_number(DeviceColumn::MemoryErrors, Some(total));
                    }
                    _ => return,
                };
                let before = self.counters.insert(counter, (at, total));
                self.state.set_share(column, before.and_then(|before| share(before, (at, total))));
            }
            (Component::Fan(fan), DeviceValue::Gauge(Gauge::FanSpeed(percent))) => {
                let speed = Utilization::from_percent(percent.min(100));
                let fastest = self.state.share(DeviceColumn::Fan).filter(|_| fan > 0);
                self.state.set_share(DeviceColumn::Fan, speed.max(fastest));
            }
            _ => {}
        }
    }

    /// The state at this time.
    pub fn state(&mut self, at: Timestamp) -> DeviceState {
        if self.activity_until < at {
            for column in [DeviceColumn::Sm, DeviceColumn::Tensor, DeviceColumn::Dram] {
                self.state.set_share(column, None);
            }
        }
        self.state
    }
}

/// The share of the time between two values in which a counter of nanoseconds rose. `None` if it was
/// reset.
fn share(before: (Timestamp, u64), now: (Timestamp, u64)) -> Option<Utilization> {
    let (time, rise) = (now.0.since(before.0), Rise::between(before.1, now.1).complete()?);
    let ppm = u128::from(rise) * u128::from(PPM) / u128::from(time.0.max(1));
    Utilization::from_ppm(u32::try_from(ppm).unwrap_or(PPM).min(PPM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_metric::MigId;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_785_110_400_000 + millis).unwrap()
    }

    fn metric(millis: u64, component: Component, value: DeviceValue) -> DeviceMetric {
        DeviceMetric { at: at(millis), component, value }
    }

    fn percent(percent: u32) -> Option<Utilization> {
        Utilization::from_percent(percent)
    }

    #[test]
    fn throttling_is_the_share_of_the_time_between_two_values() {
        let mut tracker = DeviceTracker::default();
        let mut power_cap = |millis, total| {
            let value = DeviceValue::Count { counter: Counter::PowerCap, total };
            tracker.record(&metric(millis, Component::Gpu, value));
            tracker.state(at(millis)).share(DeviceColumn::PowerCap)
        };
        assert_eq!(power_cap(0, 5_000_000_000), None);
        assert_eq!(power_cap(1_000, 5_250_000_000), percent(25));
        assert_eq!(power_cap(2_000, 5_250_000_000), percent(0));
        // A driver was loaded again.
        assert_eq!(power_cap(3_000, 0), None);
    }

    #[test]
    fn activity_expires_and_that_of_components_is_not_the_gpus() {
        let mut tracker = DeviceTracker::default();
        let activity = |mean| DeviceValue::Activity { engine: Engine::Tensor, from: at(0), mean };
        let (low, high) = (percent(20).unwrap(), percent(90).unwrap());
        tracker.record(&metric(200, Component::Gpu, activity(low)));
        let mig = MigId::parse("MIG-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f").unwrap();
        tracker.record(&metric(200, Component::Mig(mig), activity(high)));
        assert_eq!(tracker.state(at(1_200)).share(DeviceColumn::Tensor), Some(low));
        assert_eq!(tracker.state(at(1_201)).share(DeviceColumn::Tensor), None);
    }

    #[test]
    fn fan_speed_is_that_of_the_fastest() {
        let mut tracker = DeviceTracker::default();
        let mut fan = |fan, percent| {
            let value = DeviceValue::Gauge(Gauge::FanSpeed(percent));
            tracker.record(&metric(0, Component::Fan(fan), value));
            tracker.state(at(0)).share(DeviceColumn::Fan)
        };
        assert_eq!((fan(0, 40), fan(1, 55), fan(2, 50)), (percent(40), percent(55), percent(55)));
        assert_eq!(fan(0, 30), percent(30));
    }
}
