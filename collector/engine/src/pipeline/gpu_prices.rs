//! Prices of the metered GPUs: at the start, if the model becomes known, and if a price changes.

use std::collections::BTreeMap;

use phasemeter_meter::gpu::MeterConfig;
#[cfg(feature = "full")]
use phasemeter_meter::price::{Price, PriceBook};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;

use super::{MeteredGpu, Pipeline};
#[cfg(feature = "full")]
use crate::alert_rules::AlertRules;
use crate::pricing::GpuOfModel;
#[cfg(feature = "full")]
use crate::pricing::PriceOptions;

impl Pipeline<'_> {
    /// Counts a GPU of this model, and returns the number of those before it.
    pub(super) fn next_rank(&mut self, model: Option<&str>) -> u32 {
        let Some(model) = model else { return 0 };
        let gpus = self.models.entry(model.to_owned()).or_default();
        *gpus += 1;
        *gpus - 1
    }

    /// Creates a GPU whose span begins at `first` at the earliest, and which was found at `at`.
    pub(super) fn begin(
        &mut self,
        meter: MeterConfig,
        identity: &GpuIdentity,
        rank: u32,
        first: Timestamp,
        at: Timestamp,
    ) -> MeteredGpu {
        let model = identity.model.as_deref();
        let of_model = GpuOfModel { model, rank, gpus: gpus_of(&self.models, model) };
        let current = self.pricing.at(&of_model, first, at);
        let mut gpu = MeteredGpu::new(meter, identity, rank, first, current);
        if !self.alerts.rules.is_empty() {
            gpu.change_alert_rules(&self.alerts, None);
        }
        if let Some(exporter) = &mut self.exporter {
            gpu.begin_export(exporter, identity);
        }
        #[cfg(feature = "full")]
        if let Some(part) = &self.part {
            gpu.meter.end_part_at(part.end);
        }
        #[cfg(feature = "full")]
        if self.logs_charges() {
            gpu.charges.get_or_insert_default();
        }
        gpu
    }

    /// Prices a GPU whose model the source has provided only now, at `read`: from its start on, if it
    /// had no price. A price that was charged is changed from now on.
    #[cold]
    pub(super) fn price_model(&mut self, gpu: usize, identity: &GpuIdentity, read: Timestamp) {
        let rank = self.next_rank(identity.model.as_deref());
        let Some(gpu) = self.gpus.get_mut(gpu) else { return };
        gpu.set_model(identity, rank);
        let of_model = gpu.among(gpus_of(&self.models, gpu.model()));
        if gpu.price.is_err() {
            let start = gpu.meter.begins_at().unwrap_or(read);
            let first = self.pricing.at(&of_model, start, start);
            gpu.price_from_start(first);
        } else {
            let now = self.pricing.at(&of_model, read, read);
            gpu.price_until = read;
            gpu.change_price(now);
        }
    }

    /// Prices the GPUs that have no price, from their start on: pricers may have been loaded meanwhile.
    pub fn price_unpriced(&mut self) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Prices);
        for gpu in self.gpus.iter_mut().filter(|gpu| gpu.price.is_err()) {
            if let Some(start) = gpu.meter.begins_at() {
                let of_model = gpu.among(gpus_of(&self.models, gpu.model()));
                let first = self.pricing.at(&of_model, start, start);
                gpu.price_from_start(first);
            }
        }
    }

    /// Evaluates other rules for alerts from now on. Returns whether that was possible: a run can have so many.
    #[cfg(feature = "full")]
    pub fn change_alerts(&mut self, rules: &AlertRules) -> bool {
        let Some(all) = self.alerts.followed_by(rules) else { return false };
        self.stop_changes(super::OtherChange::Alerts);
        self.alerts = all;
        for gpu in self.gpus.iter_mut().filter(|gpu| !gpu.is_part) {
            gpu.change_alert_rules(&self.alerts, self.exporter.as_mut());
        }
        true
    }

    /// Prices all GPUs by other options, and by another price book if there is one, from `at` on; what was charged
    /// remains, and so does a price in place of which there is none. Returns whether that was possible: pricers may be
    /// loading.
    #[cfg(feature = "full")]
    pub fn change_prices(
        &mut self,
        options: &PriceOptions,
        book: Option<&PriceBook>,
        at: Timestamp,
    ) -> bool {
        self.stop_changes(super::OtherChange::Prices);
        // Prices that end before have their successors.
        (0..self.gpus.len()).for_each(|gpu| self.reprice(gpu, at));
        if !self.pricing.change(options, book, at) {
            return false;
        }
        for gpu in &mut self.gpus {
            let of_model = gpu.among(gpus_of(&self.models, gpu.model()));
            let now = self.pricing.at(&of_model, at, at);
            gpu.price_until = at.max(gpu.meter.charged_until().unwrap_or_default());
            gpu.change_price(now);
        }
        true
    }

    /// Prices a GPU as the meter does that bills it; what was charged remains.
    #[cfg(feature = "full")]
    pub fn take_price(&mut self, gpu: usize, price: &Price) {
        self.stop_changes(super::OtherChange::Prices);
        let begun = self.gpus.get_mut(gpu).filter(|gpu| gpu.meter.begins_at().is_some());
        begun.into_iter().for_each(|gpu| gpu.take_price(price));
    }

    /// Bills nothing for the time `from`..`to` of a GPU, which lies before its next reading. Returns the
    /// start of the time that is exempt: what has been charged remains.
    pub fn exempt(&mut self, gpu: usize, from: Timestamp, to: Timestamp) -> Timestamp {
        self.reprice(gpu, to);
        self.gpus.get_mut(gpu).map_or(from, |gpu| gpu.meter.exempt(from, to))
    }

    /// Updates the price of a GPU that may change before its next reading, at `read`.
    ///
    /// Pricers are queried on the pipeline's thread, each for at most its deadline (a second) per
    /// model and quote. Sampling continues on its own threads, whose queue holds 15 s of observations.
    pub(super) fn reprice(&mut self, gpu: usize, read: Timestamp) {
        let Some(gpu) = self.gpus.get_mut(gpu) else { return };
        while gpu.price_until <= read && gpu.price_until < Timestamp::LAST {
            let of_model = gpu.among(gpus_of(&self.models, gpu.model()));
            let next = self.pricing.at(&of_model, gpu.price_until, read);
            gpu.change_price(next);
        }
    }
}

/// The number of GPUs of a model.
fn gpus_of(models: &BTreeMap<String, u32>, model: Option<&str>) -> u32 {
    model.and_then(|model| models.get(model)).copied().unwrap_or_default()
}
