//! The cost of GPU time before and after its division.

use std::ops::{AddAssign, Sub};

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, PPM};

pub use super::cost_slice::CostSlice;

/// The part of the cost of GPUs that a span has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCost {
    /// Dollars.
    pub cost: NanoUsd,
    /// GPU time: an hour of a quarter of a GPU is 15 minutes.
    pub time: Nanos,
    /// The part of that time whose utilization was observed.
    pub observed: Nanos,
    /// Σ utilization × time, in ppm·ns.
    pub weighted: u128,
    /// Energy in microjoules.
    pub energy: u128,
}

impl SpanCost {
    /// Mean utilization of its observed GPU time, 0–1; `None` if none was observed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double")]
    pub fn utilization(&self) -> Option<f64> {
        let observed = self.observed.0 as f64 * f64::from(PPM);
        // Both are rounded to whole amounts.
        (self.observed > Nanos::ZERO).then(|| (self.weighted as f64 / observed).min(1.0))
    }

    /// Energy in joules.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double")]
    pub fn joules(&self) -> f64 {
        self.energy as f64 / 1e6
    }
}

impl AddAssign for SpanCost {
    fn add_assign(&mut self, other: Self) {
        self.cost += other.cost;
        self.time += other.time;
        self.observed += other.observed;
        self.weighted += other.weighted;
        self.energy += other.energy;
    }
}

/// Of a part that is within it.
impl Sub for SpanCost {
    type Output = Self;

    fn sub(self, part: Self) -> Self {
        Self {
            cost: self.cost - part.cost,
            time: self.time - part.time,
            observed: self.observed - part.observed,
            weighted: self.weighted.saturating_sub(part.weighted),
            energy: self.energy.saturating_sub(part.energy),
        }
    }
}

impl std::iter::Sum for SpanCost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}
