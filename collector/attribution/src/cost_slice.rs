//! What a stretch of GPU time cost.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::cost::SpanCost;

/// Time of one GPU, with what a holder of it pays. All of it has one rate, one utilization and one division among
/// holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostSlice {
    /// Start.
    pub from: Timestamp,
    /// End (exclusive).
    pub to: Timestamp,
    /// The part of its length that is the holder's: of a quarter of a GPU, a quarter. All of it if the GPU is not
    /// divided.
    pub time: Nanos,
    /// Its cost; not negative.
    pub cost: NanoUsd,
    /// Σ utilization × time, in ppm·ns.
    pub weighted: u128,
    /// Whether its utilization was observed.
    pub is_observed: bool,
    /// Energy in microjoules.
    pub energy: u128,
}

impl CostSlice {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Adds what another holder, or another container of the same one, pays for the same time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.cost += other.cost;
        self.weighted += other.weighted;
        self.energy += other.energy;
    }

    /// What it costs.
    #[must_use]
    pub fn total(&self) -> SpanCost {
        SpanCost {
            cost: self.cost,
            time: self.time,
            observed: if self.is_observed { self.time } else { Nanos::ZERO },
            weighted: self.weighted,
            energy: self.energy,
        }
    }

    /// The part from `from` to `to`. The parts of a slice sum to it, wherever it is cut: up to each
    /// instant they have the share of it rounded down.
    #[must_use]
    pub fn part(&self, from: Timestamp, to: Timestamp) -> Self {
        let from = from.clamp(self.from, self.to);
        let to = to.clamp(from, self.to);
        let length = u128::from(self.length().0.max(1));
        let until = |total: u128, at: Timestamp| {
            let time = u128::from(at.since(self.from).0);
            // Split, since the product of both can exceed 128 bits.
            total / length * time + total % length * time / length
        };
        let between = |total: u128| until(total, to) - until(total, from);
        let cost = between(self.cost.0.unsigned_abs());
        let time = between(self.time.0.into());
        Self {
            from,
            to,
            time: Nanos(u64::try_from(time).unwrap_or(u64::MAX)),
            cost: NanoUsd(i128::try_from(cost).unwrap_or(i128::MAX)),
            weighted: between(self.weighted),
            is_observed: self.is_observed,
            energy: between(self.energy),
        }
    }
}
