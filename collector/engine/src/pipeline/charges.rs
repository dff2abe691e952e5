//! What the time of GPUs cost, for experiments of the run and for a listener, which divide it.

use std::iter;
use std::sync::Arc;

use phasemeter_attribution::CostSlice;
use phasemeter_meter::accounts::ChargeShare;
use phasemeter_meter::apportion::apportion;
use phasemeter_meter::holder::Holder;
use phasemeter_meter::money::NanoUsd;
use phasemeter_otlp::encode::{DividedCost, SpanCostEvent};

use super::charge_log::LoggedCharge;
use super::{Pipeline, PipelineError};

/// What the time of a GPU cost one of those that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuCharge {
    /// The index of the GPU.
    pub gpu: usize,
    /// Its holder; `None` if it is nobody's.
    pub holder: Option<Arc<Holder>>,
    /// The time.
    pub slice: CostSlice,
}

impl Pipeline<'_> {
    /// Keeps what the time of GPUs costs from now on, until it is taken.
    pub fn log_charges(&mut self) {
        self.stop_changes(super::OtherChange::Charges);
        self.charges.get_or_insert_default();
        for gpu in &mut self.gpus {
            gpu.charges.get_or_insert_default();
        }
    }

    /// Takes what is kept, each GPU's in time order.
    pub fn take_charges(&mut self) -> Vec<GpuCharge> {
        self.distribute_charges();
        self.charges.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether the time of this GPU has a price.
    #[must_use]
    pub fn is_priced(&self, gpu: usize) -> bool {
        self.gpus.get(gpu).is_some_and(|gpu| gpu.meter.rate().is_some())
    }

    /// What all GPUs cost so far, or their holders only, if only they are charged.
    #[must_use]
    pub fn bill(&self) -> NanoUsd {
        self.gpus.iter().map(|gpu| gpu.meter.charged()).sum()
    }

    /// Exports what spans cost that were sent without it.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn export_span_costs(&mut self, costs: &[SpanCostEvent]) -> Result<(), PipelineError> {
        self.exporter.iter_mut().for_each(|exporter| exporter.span_costs(costs));
        self.send()
    }

    /// Records how all cost has been divided so far among spans.
    pub fn set_attribution(&mut self, costs: DividedCost) {
        let exporter = self.exporter.as_mut();
        exporter.into_iter().for_each(|exporter| exporter.set_attribution(costs));
    }

    /// Whether charges of GPUs are kept.
    pub(super) const fn logs_charges(&self) -> bool {
        self.charges.is_some() || self.experiments.is_some()
    }

    /// Passes the charges of all GPUs to the experiments and to the listener.
    pub(super) fn distribute_charges(&mut self) {
        for (index, gpu) in self.gpus.iter_mut().enumerate() {
            let Some(log) = &mut gpu.charges else { continue };
            for charge in log.take() {
                if let Some(experiments) = &mut self.experiments {
                    experiments.charge(index, whole(&charge));
                }
                if let Some(charges) = &mut self.charges {
                    let by_holder = by_holder(&charge).into_iter();
                    let of_gpu = |(holder, slice)| GpuCharge { gpu: index, holder, slice };
                    charges.extend(by_holder.map(of_gpu));
                }
            }
        }
    }
}

/// What each pays of a charge, in time order.
fn by_holder(charge: &LoggedCharge) -> Vec<(Option<Arc<Holder>>, CostSlice)> {
    let whole = whole(charge);
    if charge.shares.is_empty() {
        return vec![(None, whole)];
    }
    let times: Vec<u64> = charge.shares.iter().map(|share| share.time.0).collect();
    let energies = apportion(whole.energy, &times).unwrap_or_default();
    let energies = energies.into_iter().chain(iter::repeat(0));
    let slice = |(share, energy): (&ChargeShare, u128)| {
        let ChargeShare { from, to, time, weighted, cost, .. } = *share;
        let slice = CostSlice { from, to, time, cost, weighted, energy, ..whole };
        (share.holder.clone(), slice)
    };
    charge.shares.iter().zip(energies).map(slice).collect()
}

/// All of a charge.
fn whole(LoggedCharge { charge, power, .. }: &LoggedCharge) -> CostSlice {
    let (slice, time) = (&charge.slice, charge.time);
    let power = power.map_or(0, |power| u128::from(power.get()));
    CostSlice {
        from: slice.from,
        to: slice.to,
        time,
        cost: charge.cost,
        weighted: charge.weighted,
        is_observed: slice.account.phase().is_some(),
        // 1 mW × 1 ns is 1 pJ.
        energy: power * u128::from(time.0) / 1_000_000,
    }
}
