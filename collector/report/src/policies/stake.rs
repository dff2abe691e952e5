//! What is at stake: the waste that a recommendation is about. Findings are ranked by it.

use std::cmp::Ordering;

use phasemeter_meter::money::NanoUsd;
use phasemeter_savings::coverage::{Change, Wasted};
use phasemeter_savings::recommendation::Target;
use serde::Serialize;

use super::MeteredGpu;
use crate::value::Usd;

/// Waste, or on another axis than waste an expected saving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stake {
    /// In dollars; `None` if one of the GPUs has no price.
    pub usd: Option<Usd>,
    /// GPU-hours that cost as much at the mean rate of each GPU.
    pub gpu_hours: f64,
}

impl Stake {
    /// The largest first: in dollars, else in time.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let usd = |it: &Self| it.usd.map(|Usd(usd)| usd);
        usd(other).cmp(&usd(self)).then_with(|| other.gpu_hours.total_cmp(&self.gpu_hours))
    }

    /// What a change of these GPUs is about.
    pub(super) fn of<'a>(change: &Change, gpus: impl Iterator<Item = MeteredGpu<'a>>) -> Self {
        let mut sum = Self { usd: Some(Usd(NanoUsd::ZERO)), gpu_hours: 0.0 };
        for (gpu, summary) in gpus {
            let wasted = Wasted::of(summary, gpu.price.is_ok());
            let amount = match change.target {
                Target::Waste(_) => wasted.at_stake(change),
                Target::Throughput | Target::Rate => {
                    change.saving.expected.part_of(NanoUsd(wasted.bill())).0
                }
            };
            sum.usd = sum.usd.filter(|_| gpu.price.is_ok());
            sum.usd = sum.usd.map(|Usd(usd)| Usd(usd + NanoUsd(amount)));
            sum.gpu_hours += wasted.hours(amount);
        }
        sum
    }
}
