//! Settings of a meter, and its device metrics: what it gets beside readings.

use super::GpuMeter;
use crate::device_meter::DeviceMeter;
use crate::device_metric::DeviceMetric;
use crate::units::{Bytes, Milliwatts};

impl GpuMeter {
    /// Sets local time in seconds east of UTC, for the hours of the week of time metered from now on;
    /// `None` if unknown.
    pub fn set_utc_offset(&mut self, offset: Option<i32>) {
        self.ledger.activity.set_utc_offset(offset);
    }

    /// Sets the memory size, for readings ingested from now on: more than 1% of it in use means
    /// held.
    pub const fn set_memory_total(&mut self, total: Option<Bytes>) {
        self.memory_total = total;
    }

    /// Sets the power limit, for readings ingested from now on, unless a device metric had it.
    pub fn set_power_limit(&mut self, limit: Option<Milliwatts>) {
        self.power_limit = self.device.power_limit.or(limit);
    }

    /// Records a device metric, which later readings carry as far as they lack it.
    pub fn measure(&mut self, metric: &DeviceMetric) {
        self.device.measure(metric);
    }

    /// Its device metrics, to count errors and rates of links.
    pub const fn device_mut(&mut self) -> &mut DeviceMeter {
        &mut self.device
    }
}
