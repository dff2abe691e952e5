//! Points of time, cost, waste, effective time and price.

use opentelemetry_proto::tonic::metrics::v1::{Exemplar, NumberDataPoint};
use phasemeter_meter::gpu::EffectivePart;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::holders::HolderPoints;
use super::instruments as metrics;
use super::values::{Start, double, weighted_seconds};
use crate::names::attribute;

/// The last point of one account.
#[derive(Clone, Copy, Debug)]
struct LastPoint {
    account: Account,
    /// Whether a point was ever exported.
    is_exported: bool,
    waste: NanoUsd,
}

/// State between two exports.
#[derive(Clone, Debug)]
pub(super) struct AccountPoints {
    points: [LastPoint; Account::ALL.len()],
    memory_total: Option<Bytes>,
    /// Whether readings show if the GPU is held.
    shows_holding: bool,
    /// Points by holder, in place of those of the GPU.
    holders: Option<HolderPoints>,
}

impl AccountPoints {
    /// State before the first export.
    pub(super) fn new(memory_total: Option<Bytes>, by_holder: bool) -> Self {
        let unexported = |account| LastPoint { account, is_exported: false, waste: NanoUsd::ZERO };
        let holders = by_holder.then(HolderPoints::default);
        Self { points: Account::ALL.map(unexported), memory_total, shows_holding: false, holders }
    }

    /// Records that a reading was accepted.
    pub(super) fn record(&mut self, reading: &Reading) {
        self.shows_holding |= reading.compute_processes.is_some()
            || (reading.memory_used.is_some() && self.memory_total.is_some());
    }

    /// Adds the points of one export. Every account that applies is exported from the first export
    /// on, so that no sum starts late; an account that was exported once is exported every time. Exemplars are of the cost
    /// of the GPU's accounts, in their order.
    pub(super) fn add_points(
        &mut self,
        export: &GpuSnapshot,
        at: Timestamp,
        exemplars: [Option<Exemplar>; Account::ALL.len()],
        batch: &mut Batch,
    ) {
        let shows_holding = self.shows_holding;
        let applies = |account: Account| match account {
            Account::IdleHeld | Account::IdleFree => shows_holding,
            Account::IdleUnknown => !shows_holding,
            _ => true,
        };
        match &mut self.holders {
            Some(holders) => holders.add_points(export, at, applies, batch),
            None => self.add_own(export, applies, exemplars, batch),
        }
        for EffectivePart { basis, is_billed, weighted } in export.meter.effective_parts() {
            let streams =
                if is_billed { &metrics::EFFECTIVE_TIME } else { &metrics::EFFECTIVE_TIME_BESIDE };
            let attributes = export.attributes.basis(basis, is_billed);
            let seconds = weighted_seconds(weighted);
            batch.add_workload(streams, double(export.start(), attributes, seconds));
        }
        if let Some((attributes, rate)) = export.attributes.price().zip(export.meter.rate()) {
            let price = double(Start::NONE, attributes, rate.hourly().as_f64());
            batch.add_workload(&metrics::PRICE, price);
        }
    }

    /// Adds the points of the GPU as a whole.
    fn add_own(
        &mut self,
        export: &GpuSnapshot,
        applies: impl Fn(Account) -> bool,
        exemplars: [Option<Exemplar>; Account::ALL.len()],
        batch: &mut Batch,
    ) {
        let accounts = export.meter.accounts();
        for (last, exemplar) in self.points.iter_mut().zip(exemplars) {
            let LastPoint { account, is_exported, waste } = last;
            let balance = accounts[*account];
            let is_unobserved = *account == Account::Unobserved;
            let left_out = if is_unobserved { export.meter.left_out() } else { Nanos::ZERO };
            *is_exported |= applies(*account) || balance.time > Nanos::ZERO;
            if !*is_exported {
                continue;
            }
            let point = |value| {
                let attributes = export.attributes.own(attribute::PHASE, account.name());
                double(export.start(), attributes, value)
            };
            batch.add_workload(&metrics::TIME, point((balance.time - left_out).as_secs_f64()));
            if !export.is_priced() {
                continue;
            }
            let exemplars = exemplar.into_iter().collect();
            let cost = NumberDataPoint { exemplars, ..point(balance.cost.as_f64()) };
            batch.add_workload(&metrics::COST, cost);
            if account.phase().is_some() {
                // Cost and utilized cost are rounded down at different instants, so waste can
                // appear to fall by a few nano-dollars; a sum must not fall.
                *waste = balance.waste().max(*waste);
                batch.add_workload(&metrics::WASTE, point(waste.as_f64()));
            }
        }
    }
}
