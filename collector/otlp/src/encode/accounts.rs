//! Where a GPU's time and money went: the points of time, cost, waste and rate.
//!
//! This room must not know how an account was found.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Bytes, Nanos};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::instruments as metrics;
use super::values::{PointTime, double, weighted_seconds};

/// What is remembered of one account from one export to the next.
#[derive(Clone, Copy, Debug)]
struct LastPoint {
    account: Account,
    /// It has points.
    is_told: bool,
    waste: NanoUsd,
}

/// What is remembered from one export to the next.
#[derive(Clone, Debug)]
pub(super) struct AccountPoints {
    told: [LastPoint; Account::ALL.len()],
    memory_total: Option<Bytes>,
    /// Whether readings tell if it is held.
    knows_holding: bool,
}

impl AccountPoints {
    /// Nothing is told yet.
    pub(super) fn new(memory_total: Option<Bytes>) -> Self {
        let told = |account| LastPoint { account, is_told: false, waste: NanoUsd::ZERO };
        Self { told: Account::ALL.map(told), memory_total, knows_holding: false }
    }

    /// A reading counts.
    pub(super) fn record(&mut self, reading: &Reading) {
        self.knows_holding |= reading.compute_processes.is_some()
            || (reading.memory_used.is_some() && self.memory_total.is_some());
    }

    /// Adds the points of one export. Every account that applies is told from the first export
    /// on, so that no sum begins late; and what was told once is always told.
    pub(super) fn tell(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        let accounts = &export.summary.accounts;
        let price = export.attributes.price().zip(export.summary.rate);
        let numbers = &mut batch.workload;
        for LastPoint { account, is_told, waste } in &mut self.told {
            let balance = accounts[*account];
            let applies = match account {
                Account::IdleHeld | Account::IdleFree => self.knows_holding,
                Account::IdleUnknown => !self.knows_holding,
                _ => true,
            };
            *is_told |= applies || balance.time > Nanos::ZERO;
            if !*is_told {
                continue;
            }
            let point = |value| {
                let attributes = export.attributes.own("phasemeter.phase", account.name());
                double(export.when, attributes, value)
            };
            numbers.add(&metrics::TIME, point(balance.time.as_secs_f64()));
            if price.is_none() {
                continue;
            }
            numbers.add(&metrics::COST, point(balance.cost.as_f64()));
            if account.phase().is_some() {
                // Cost and effective cost are cut to nano-dollars at different instants, so waste
                // may seem to fall by some of them; a sum must not.
                *waste = balance.waste().max(*waste);
                numbers.add(&metrics::WASTE, point(waste.as_f64()));
            }
        }
        for feed in export.meter.feeds().filter(|feed| feed.is_measured()) {
            let seconds = weighted_seconds(feed.weighted());
            let attributes = export.attributes.basis(feed.basis());
            numbers.add(&metrics::EFFECTIVE_TIME, double(export.when, attributes, seconds));
        }
        if let Some((attributes, rate)) = price {
            let gauge = PointTime { start: 0, ..export.when };
            numbers.add(&metrics::PRICE, double(gauge, attributes, rate.hourly().as_f64()));
        }
    }
}
