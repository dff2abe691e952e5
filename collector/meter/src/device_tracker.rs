//! Derives the device state of a live reading from the device metrics before it.
//!
//! Metrics are polled less often than utilization, so a reading carries the last value of each
//! metric, as long as that describes the present.

use std::collections::BTreeMap;

use crate::device_metric::{Component, DeviceMetric, DeviceValue};
use crate::device_state::DeviceState;
use crate::quantity::Quantity;
use crate::rise::Rise;
use crate::units::{Nanos, PPM, Timestamp, Utilization};

/// How long an activity describes the present. It is measured five times a second.
const STALE_AFTER: Nanos = Nanos::SECOND;

/// The last device metrics of a GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceTracker {
    state: DeviceState,
    activity_until: Timestamp,
    /// The counters of time.
    counters: BTreeMap<Quantity, (Timestamp, u64)>,
}

impl DeviceTracker {
    /// Records a metric. Metrics of one kind arrive in time order.
    pub(crate) fn record(&mut self, metric: &DeviceMetric) {
        let DeviceMetric { at, component, quantity, value } = *metric;
        match (component, value) {
            (Component::Gpu, DeviceValue::Mean { share, .. }) => {
                self.state.set(quantity, Some(share.ppm()));
                if Quantity::ACTIVITIES.contains(&quantity) {
                    self.activity_until = at + STALE_AFTER;
                }
            }
            (Component::Gpu, DeviceValue::Total(total)) if quantity.is_share() => {
                let before = self.counters.insert(quantity, (at, total));
                self.state.set(quantity, before.and_then(|before| share(before, (at, total))));
            }
            (Component::Gpu, DeviceValue::Total(total)) => {
                self.state.set(quantity, Some(u32::try_from(total).unwrap_or(u32::MAX)));
            }
            (Component::Fan(fan), DeviceValue::Now(speed)) => {
                let fastest = self.state.share(quantity).filter(|_| fan > 0);
                let speed = u32::try_from(speed).ok();
                self.state.set(quantity, speed.max(fastest.map(Utilization::ppm)));
            }
            _ => {}
        }
    }

    /// The state at this time.
    pub(crate) fn state(&mut self, at: Timestamp) -> DeviceState {
        if self.activity_until < at {
            Quantity::ACTIVITIES.into_iter().for_each(|activity| self.state.set(activity, None));
        }
        self.state
    }
}

/// The share of the time between two values in which a counter of nanoseconds rose, in ppm. `None` if it was
/// reset.
fn share(before: (Timestamp, u64), now: (Timestamp, u64)) -> Option<u32> {
    let (time, rise) = (now.0.since(before.0), Rise::between(before.1, now.1).complete()?);
    let ppm = u128::from(rise) * u128::from(PPM) / u128::from(time.0.max(1));
    Some(u32::try_from(ppm).unwrap_or(PPM).min(PPM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_metric::MigId;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_785_110_400_000 + millis).unwrap()
    }

    fn percent(percent: u32) -> Option<Utilization> {
        Utilization::from_percent(percent)
    }

    #[test]
    fn throttling_is_the_share_of_the_time_between_two_values() {
        let mut tracker = DeviceTracker::default();
        let mut power_cap = |millis, total| {
            let quantity = Quantity::PowerCap;
            tracker.record(&DeviceMetric {
                at: at(millis),
                component: Component::Gpu,
                quantity,
                value: DeviceValue::Total(total),
            });
            tracker.state(at(millis)).share(quantity)
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
        let activity = |component, share| {
            let value = DeviceValue::Mean { from: at(0), share };
            DeviceMetric { at: at(200), component, quantity: Quantity::TensorActivity, value }
        };
        let (low, high) = (percent(20).unwrap(), percent(90).unwrap());
        tracker.record(&activity(Component::Gpu, low));
        let mig = MigId::parse("MIG-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f").unwrap();
        tracker.record(&activity(Component::Mig(mig), high));
        assert_eq!(tracker.state(at(1_200)).share(Quantity::TensorActivity), Some(low));
        assert_eq!(tracker.state(at(1_201)).share(Quantity::TensorActivity), None);
    }

    #[test]
    fn fan_speed_is_that_of_the_fastest() {
        let mut tracker = DeviceTracker::default();
        let mut fan = |fan, percent: i64| {
            let (component, quantity) = (Component::Fan(fan), Quantity::FanSpeed);
            let value = DeviceValue::Now(percent * 10_000);
            tracker.record(&DeviceMetric { at: at(0), component, quantity, value });
            tracker.state(at(0)).share(quantity)
        };
        assert_eq!((fan(0, 40), fan(1, 55), fan(2, 50)), (percent(40), percent(55), percent(55)));
        assert_eq!(fan(0, 30), percent(30));
    }
}
