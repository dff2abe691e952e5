//! Means and maxima of what only some sources have.

use crate::device_state::{DeviceState, STEP};
use crate::quantity::Quantity;
use crate::units::PPM;

/// Means and maxima of the kept quantities over readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMeans([Mean; Quantity::KEPT]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mean {
    sum: u64,
    count: u64,
    max: u8,
}

impl DeviceMeans {
    /// Records the values of a reading; `works` is whether the GPU worked then.
    #[inline(never)]
    pub(crate) fn record(&mut self, state: &DeviceState, works: bool) {
        for (quantity, mean) in Quantity::kept().zip(&mut self.0) {
            if let Some(value) = state.steps(quantity)
                && (works || !is_of_work(quantity) || (is_video(quantity) && value > 0))
            {
                mean.sum += u64::from(value);
                mean.count += 1;
                mean.max = mean.max.max(u8::try_from(value).unwrap_or(u8::MAX));
            }
        }
    }

    /// The readings since an earlier state. Maxima are of the whole run.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        for (mean, earlier) in self.0.iter_mut().zip(earlier.0) {
            mean.sum -= earlier.sum;
            mean.count -= earlier.count;
        }
        self
    }

    /// The mean: of shares 0–1; `None` without readings.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn mean(&self, quantity: Quantity) -> Option<f64> {
        let Mean { sum, count, .. } = *self.0.get(quantity.place())?;
        (count > 0).then(|| sum as f64 / count as f64 / scale(quantity))
    }

    /// The maximum: of shares 0–1; `None` without readings.
    #[must_use]
    pub fn max(&self, quantity: Quantity) -> Option<f64> {
        let Mean { count, max, .. } = *self.0.get(quantity.place())?;
        (count > 0).then(|| f64::from(max) / scale(quantity))
    }
}

/// Whether its mean is that of the time in which the GPU worked: idle time does not show what a job needs.
const fn is_of_work(quantity: Quantity) -> bool {
    quantity.is_share() && !matches!(quantity, Quantity::FanSpeed)
}

/// Whether it is of a video engine, which works beside kernels: utilization does not show its work.
const fn is_video(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Encoder | Quantity::Decoder)
}

fn scale(quantity: Quantity) -> f64 {
    if quantity.is_share() { f64::from(PPM / STEP) } else { 1.0 }
}
