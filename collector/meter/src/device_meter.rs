//! The device metrics of one GPU: what its readings carry of them, their totals, and the power limit in force.

use crate::device_metric::{DeviceMetric, DeviceValue};
use crate::device_totals::DeviceTotals;
use crate::device_tracker::DeviceTracker;
use crate::quantity::Quantity;
use crate::reading::Reading;
use crate::units::Milliwatts;

/// Meters device metrics.
#[derive(Clone, Debug, Default)]
pub struct DeviceMeter {
    /// Its last device metrics, if there are any.
    tracker: Option<DeviceTracker>,
    /// Traffic and errors.
    pub totals: DeviceTotals,
    /// The last power limit that was measured.
    pub power_limit: Option<Milliwatts>,
}

impl DeviceMeter {
    /// Records a metric. Metrics of one kind arrive in time order.
    pub fn measure(&mut self, metric: &DeviceMetric) {
        if let (Quantity::PowerLimit, DeviceValue::Now(limit)) = (metric.quantity, metric.value) {
            self.power_limit = u32::try_from(limit).ok().and_then(Milliwatts::new);
        }
        self.tracker.get_or_insert_default().record(metric);
        self.totals.record(metric);
    }

    /// Adds to a reading what it lacks and metrics before it had.
    pub fn complete(&mut self, reading: &mut Reading) {
        if let Some(tracker) = &mut self.tracker {
            reading.device = reading.device.or(&tracker.state(reading.at));
        }
    }
}
