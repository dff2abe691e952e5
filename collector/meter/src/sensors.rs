//! Clocks, temperature, power and device columns of a GPU over its readings: what tells a throttled,
//! a hanging and a busy GPU apart.

use crate::device_state::DeviceMeans;
use crate::power_histogram::PowerHistogram;
use crate::reading::Reading;

/// Utilization from which the clock counts: an idle GPU lowers it.
const BUSY_PPM: u32 = 900_000;

/// Utilization from which the GPU works: power and activity below it say nothing about a job.
const WORK_PPM: u32 = 100_000;

/// Clocks and temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sensors {
    /// SM clock while the GPU is at least 90% busy, in MHz.
    pub sm_clock: Sensor,
    /// Memory clock while the utilization is at least 10%, in MHz.
    pub memory_clock: Sensor,
    /// Temperature, in degrees Celsius.
    pub temperature: Sensor,
    /// Power while the utilization is at least 10%.
    pub busy_power: PowerHistogram,
    /// Device columns.
    pub device: DeviceMeans,
}

/// One value, per reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sensor {
    sum: u64,
    count: u64,
    max: u32,
}

impl Sensors {
    #[inline]
    pub(crate) fn record(&mut self, reading: &Reading) {
        if let Some(temperature) = reading.temperature {
            self.temperature.record(u32::try_from(temperature.0).unwrap_or_default());
        }
        if let (Some(clock), Ok(utilization)) = (reading.sm_clock, reading.utilization)
            && utilization.ppm() >= BUSY_PPM
        {
            self.sm_clock.record(clock.0);
        }
        let works = reading.utilization.is_ok_and(|utilization| utilization.ppm() >= WORK_PPM);
        if let Some(clock) = reading.memory_clock
            && works
        {
            self.memory_clock.record(clock.0);
        }
        if let Some(power) = reading.power
            && works
        {
            self.busy_power.record(power);
        }
        if !reading.device.is_none() {
            self.device.record(&reading.device, works);
        }
    }

    /// The readings since an earlier state. Maxima are of the whole run.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        Self {
            sm_clock: self.sm_clock.since(earlier.sm_clock),
            memory_clock: self.memory_clock.since(earlier.memory_clock),
            temperature: self.temperature.since(earlier.temperature),
            busy_power: self.busy_power.since(&earlier.busy_power),
            device: self.device.since(&earlier.device),
        }
    }
}

impl Sensor {
    #[inline]
    fn record(&mut self, value: u32) {
        self.sum += u64::from(value);
        self.count += 1;
        self.max = self.max.max(value);
    }

    const fn since(self, earlier: Self) -> Self {
        Self { sum: self.sum - earlier.sum, count: self.count - earlier.count, max: self.max }
    }

    /// The mean; `None` without readings.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The maximum; `None` without readings.
    #[must_use]
    pub fn max(self) -> Option<f64> {
        (self.count > 0).then(|| f64::from(self.max))
    }
}
