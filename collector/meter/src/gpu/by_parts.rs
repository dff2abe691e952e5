//! The utilization of a GPU by its parts, such as MIG instances: billed where its source supports none of its own.

use super::GpuMeter;
use crate::reading::{Basis, Interval};
use crate::units::{Nanos, Timestamp, Utilization};
use crate::utilization_feed::UtilizationFeed;

/// What is billed by the parts of a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByParts {
    /// The source, once there was an interval.
    pub(super) basis: Option<Basis>,
    /// Σ utilization × time, in ppm·ns.
    pub(super) weighted: u128,
    pub(super) time: Nanos,
    /// Whether holders have parts of their own.
    pub(super) are_apart: bool,
}

impl GpuMeter {
    /// Adds an interval of what the parts of the GPU sum to, such as MIG instances. It is billed where the source supports
    /// no utilization of the GPU itself. Returns whether any part of it was accepted.
    pub fn push_interval_of_parts(&mut self, interval: Interval) -> bool {
        self.by_parts.basis = Some(interval.basis);
        self.push_interval(interval)
    }

    /// Whether holders have parts of the GPU of their own, such as MIG instances: what the GPU as a whole shows touches none
    /// of several.
    pub const fn divide_into_parts(&mut self, are_apart: bool) {
        self.by_parts.are_apart = are_apart;
    }

    /// The feed of what the parts of the GPU sum to, if there is one.
    pub(super) fn feed_of_parts(&self) -> Option<&UtilizationFeed> {
        self.feeds.iter().find(|feed| Some(feed.basis()) == self.by_parts.basis)
    }

    /// What the parts of the GPU sum to at `at`, and until when, at most `to`: it is billed.
    pub(super) fn take_parts(
        &mut self,
        at: Timestamp,
        to: Timestamp,
    ) -> (Option<Utilization>, Timestamp) {
        let (value, until) = self.feed_of_parts().map_or((None, to), |feed| feed.at(at, to));
        if let Some(utilization) = value {
            let time = until.since(at);
            self.by_parts.weighted += u128::from(utilization.ppm()) * u128::from(time.0);
            self.by_parts.time += time;
        }
        (value, until)
    }

    /// The feed of the parts of the GPU, if most of the observed time is billed by it.
    pub(super) fn main_parts(&self) -> Option<&UtilizationFeed> {
        let observed = self.ledger.accounts.observed().time;
        let is_main =
            self.by_parts.time > Nanos::ZERO && self.by_parts.time.saturating_mul(2) >= observed;
        self.feed_of_parts().filter(|_| is_main)
    }
}
