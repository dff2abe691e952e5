//! One GPU of the pipeline: its meter, price and export.

use std::sync::Arc;

use phasemeter_meter::device_metric::DeviceMetric;
use phasemeter_meter::gpu::{GpuMeter, GpuPart, MeterConfig};
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::reorder::LateReading;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp};
use phasemeter_otlp::encode::{Exporter, GpuDescription, GpuExport};
use phasemeter_rules::workload::Workload;
use phasemeter_savings::load::LoadFeed;

use super::charge_log::{ChargeLog, Charges, Observers, ServedExport};
use super::serving::Serving;
use crate::alert_rules::AlertRules;
use crate::pricing::{CurrentPrice, EarlierPrices, GpuOfModel, Term};

/// Time of a GPU that is not billed, since it was not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absence {
    /// The end of its span, if its host is gone, and of the run.
    pub after: Option<(Timestamp, Timestamp)>,
    /// All of it: after the span, and pauses within it.
    pub time: Nanos,
}

impl Absence {
    /// That of a part of the run with this much absent time in it: time after the span is of the part that is last.
    #[must_use]
    pub fn of_part(self, within: Nanos) -> Self {
        let after = self.after.map_or(Nanos::ZERO, |(end, run)| run.since(end));
        Self { after: self.after, time: within + after }
    }
}

/// The end of the span of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanEnd {
    /// The end of a live run, until which the GPU is read.
    Run(Timestamp),
    /// The end of a log. A GPU whose last reading is earlier was no longer listed.
    Log(Timestamp),
}

impl SpanEnd {
    pub(super) const fn at(self) -> Timestamp {
        match self {
            Self::Run(at) | Self::Log(at) => at,
        }
    }
}

/// A GPU that is being metered.
pub struct MeteredGpu {
    /// Its meter.
    pub meter: GpuMeter,
    /// What a report has in its place, if it is that of a part of the run.
    pub part: Option<GpuPart>,
    /// Its current price, or why there is none.
    pub price: Result<Price, Unpriced>,
    /// Its earlier prices.
    pub earlier: EarlierPrices,
    /// Until when it had no price, if it has one now, and why.
    pub unpriced_until: Option<(Timestamp, Unpriced)>,
    /// Unobserved time at its end, in which its source no longer listed it.
    pub unlisted: Nanos,
    /// Time that is not billed, since the GPU was not there.
    pub absence: Absence,
    /// From when on another meter has it.
    pub(super) elsewhere_from: Option<Timestamp>,
    /// Time in which its source listed other GPUs of its host and not it, if it still does.
    pub(super) vanished: Nanos,
    /// The start of the current price.
    price_from: Timestamp,
    /// When the price is queried again; [`Timestamp::LAST`] for never.
    pub(super) price_until: Timestamp,
    /// The model for pricing.
    model: Option<String>,
    /// The number of GPUs of the model before it, in the order of the report.
    rank: u32,
    /// Whether the source has provided it. Otherwise it may do so later.
    is_model_final: bool,
    pub(super) memory_total: Option<Bytes>,
    /// Whether alerts and recommendations about it are another meter's: this run has a part of it only.
    pub(super) is_part: bool,
    /// The kind of the processes on it.
    pub(super) processes: Workload,
    pub(super) export: Option<GpuExport>,
    /// What its time cost, if experiments begin during the run.
    pub(super) charges: Option<ChargeLog>,
    /// The groups of work that it does.
    pub serving: Serving,
    /// Its seconds, for the load of its group.
    pub(super) load: LoadFeed,
}

impl MeteredGpu {
    /// Creates a GPU whose span begins at `first` at the earliest, with its first price.
    pub(super) fn new(
        config: MeterConfig,
        identity: &GpuIdentity,
        rank: u32,
        first: Timestamp,
        current: CurrentPrice,
    ) -> Self {
        let CurrentPrice { price, until, .. } = current;
        let rate = price.as_ref().ok().map(|price| price.rate);
        let memory_total = identity.memory_size();
        Self {
            meter: GpuMeter::new(config, rate, memory_total),
            part: None,
            earlier: EarlierPrices::default(),
            price_from: Timestamp::EPOCH,
            price_until: until,
            price,
            unpriced_until: None,
            unlisted: Nanos::ZERO,
            absence: Absence::default(),
            elsewhere_from: None,
            vanished: Nanos::ZERO,
            model: identity.model.clone(),
            rank,
            is_model_final: is_model_final(identity),
            memory_total,
            is_part: false,
            processes: Workload::Unknown,
            export: None,
            charges: None,
            serving: Serving::default(),
            load: LoadFeed::begin(first, kept_load(&config)),
        }
    }

    /// Whether the source has provided the model of this GPU since the last call.
    pub(super) const fn learns_model(&mut self, identity: &GpuIdentity) -> bool {
        let learns = !self.is_model_final && is_model_final(identity);
        self.is_model_final |= learns;
        learns
    }

    /// The GPU among the `gpus` of its model.
    pub(super) fn among(&self, gpus: u32) -> GpuOfModel<'_> {
        GpuOfModel { model: self.model.as_deref(), rank: self.rank, gpus }
    }

    /// Its model, if known.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Sets the model that the source has provided.
    pub(super) fn set_model(&mut self, identity: &GpuIdentity, rank: u32) {
        self.model.clone_from(&identity.model);
        self.rank = rank;
        self.memory_total = identity.memory_size();
        self.meter.set_memory_total(self.memory_total);
        if let (Some(export), Some(model)) = (&mut self.export, &self.model) {
            export.set_model(model);
        }
    }

    /// Prices the GPU, which has no price yet, from its start on if it has had one price since then.
    pub(super) fn price_from_start(&mut self, first: CurrentPrice) {
        let charged = self.meter.charged_until().unwrap_or_default();
        let too_late = || Unpriced::ModelTooLate { model: self.model.clone().unwrap_or_default() };
        let CurrentPrice { price, until, .. } = first;
        let price = if until < charged { Err(too_late()) } else { price };
        self.price_until = until.max(charged);
        self.price = price.and_then(|price| {
            self.meter.price_from_start(price.rate).map_err(|_| too_late())?;
            self.serving.price(price.rate);
            Ok(price)
        });
        if let (Some(export), Ok(price)) = (&mut self.export, &self.price) {
            export.price_from_start(price);
        }
    }

    /// Has the price of another meter for all time that is not charged, and later.
    #[cfg(feature = "full")]
    pub(super) fn take_price(&mut self, price: &Price) {
        if self.price.as_ref() == Ok(price) {
            return;
        }
        let from = self.meter.charged_until().unwrap_or_default();
        let is_first = Some(from) == self.meter.begins_at();
        self.price_until = from;
        self.change_price(CurrentPrice { price: Ok(price.clone()), from, until: Timestamp::LAST });
        if is_first {
            self.earlier = EarlierPrices::default();
            self.unpriced_until = None;
        }
    }

    /// Replaces the price that may have changed.
    ///
    /// No later time is charged yet: a reading after it would have updated the price.
    pub(super) fn change_price(&mut self, next: CurrentPrice) {
        let CurrentPrice { price: next, from, until } = next;
        let from = self.price_until.max(from);
        self.price_until = until;
        let changed = match (&self.price, &next) {
            (Ok(price), Ok(next)) if price == next => return,
            (Ok(_), Ok(next)) => self.meter.change_rate(from, next.rate),
            (Err(_), Ok(next)) => self.meter.price_from(from, next.rate),
            // A price remains in use until there is another one.
            (Ok(_), Err(_)) => return,
            (Err(_), Err(_)) => Ok(()),
        };
        if changed.is_err() {
            return;
        }
        if let (Some(export), Ok(next)) = (&mut self.export, &next) {
            export.change_price(from, next);
        }
        match std::mem::replace(&mut self.price, next) {
            Ok(price) => self.earlier.push(Term { price, from: self.price_from, until: from }),
            Err(reason) => self.unpriced_until = self.price.is_ok().then_some((from, reason)),
        }
        self.price_from = from;
    }

    /// Starts the export, with all prices up to now.
    pub(super) fn begin_export(&mut self, exporter: &mut Exporter, identity: &GpuIdentity) {
        let earlier = self.earlier.terms.iter().map(|term| &term.price);
        let mut prices = earlier.chain(self.price.as_ref().ok()).peekable();
        // A price that began during the run is a change.
        let first = prices.next_if(|_| self.unpriced_until.is_none());
        let (memory_total, price) = (self.memory_total, first);
        let mut export = exporter.begin(&GpuDescription { identity, memory_total, price });
        if let Some((from, _)) = &self.unpriced_until
            && let Some(price) = prices.next()
        {
            export.change_price(*from, price);
        }
        for (before, price) in self.earlier.terms.iter().zip(prices) {
            export.change_price(before.until, price);
        }
        self.export = Some(export);
    }

    /// Accepts a device metric.
    pub(super) fn measure(&mut self, metric: DeviceMetric) {
        self.meter.measure(&metric);
        if let Some(export) = &mut self.export {
            export.measure(metric);
        }
    }

    /// Meters, and passes the results on.
    fn meter_with<T>(
        &mut self,
        exporter: Option<&mut Exporter>,
        meter: impl FnOnce(&mut GpuMeter, &mut Observers<'_>) -> T,
    ) -> T {
        let export = exporter.zip(self.export.as_mut());
        let export = export.map(|(exporter, export)| exporter.observe(export));
        let mut observers = (
            ServedExport { export, serving: &mut self.serving },
            Charges { load: &mut self.load, log: self.charges.as_mut() },
        );
        meter(&mut self.meter, &mut observers)
    }

    /// Evaluates these rules from now on.
    pub(super) fn change_alert_rules(
        &mut self,
        rules: &AlertRules,
        exporter: Option<&mut Exporter>,
    ) {
        self.meter_with(exporter, |meter, observers| {
            meter.change_alert_rules(Arc::clone(&rules.rules), &rules.retired, observers);
        });
    }

    /// Meters a reading; an error if it is behind the watermark.
    pub(super) fn push(
        &mut self,
        reading: &Reading,
        identity: &GpuIdentity,
        exporter: Option<&mut Exporter>,
    ) -> Result<(), LateReading> {
        if identity.memory_total.is_some() && identity.memory_total != self.memory_total {
            self.memory_total = identity.memory_total;
            self.meter.set_memory_total(identity.memory_total);
        }
        self.meter.set_power_limit(identity.power_limit);
        self.vanished = Nanos::ZERO;
        self.meter_with(exporter, |meter, observers| meter.push(*reading, observers))
    }

    /// Meters the oldest buffered readings early, so that at most `keep` wait for older ones.
    pub(super) fn release(&mut self, keep: usize, exporter: Option<&mut Exporter>) {
        self.meter_with(exporter, |meter, observers| meter.release(keep, observers));
    }

    /// At the end of the input, meters the buffered readings before `until`.
    pub(super) fn drain(&mut self, until: Timestamp, exporter: Option<&mut Exporter>) {
        self.meter_with(exporter, |meter, observers| meter.drain(until, observers));
    }

    /// Begins the span, before the first reading.
    pub(super) fn begin_at(&mut self, start: Timestamp, exporter: Option<&mut Exporter>) {
        self.meter_with(exporter, |meter, observers| meter.begin_at(start, observers));
    }

    /// Meters time up to `to` in which the source no longer lists the GPU, for this long so far.
    pub(super) fn advance_silent(
        &mut self,
        to: Timestamp,
        vanished: Nanos,
        exporter: Option<&mut Exporter>,
    ) {
        self.vanished = vanished;
        self.meter_with(exporter, |meter, observers| meter.advance_silent(to, observers));
    }

    /// See [`GpuMeter::leave_out`].
    pub(super) fn leave_out(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        exporter: Option<&mut Exporter>,
    ) -> Option<(Timestamp, Timestamp)> {
        self.meter_with(exporter, |meter, observers| meter.leave_out(from, to, observers))
    }

    /// Finalizes the meter and the export.
    pub(super) fn finish(&mut self, end: SpanEnd, exporter: Option<&mut Exporter>) {
        let mut exporter = exporter;
        self.meter_with(exporter.as_deref_mut(), |meter, observers| match end {
            SpanEnd::Run(end) => meter.finish_at(end, observers),
            SpanEnd::Log(end) => meter.finish_unlisted_at(end, observers),
        });
        self.load.end();
        if let (Some(exporter), Some(export)) = (exporter, self.export.take()) {
            exporter.end(export);
        }
    }
}

/// Whether the source has provided the model.
const fn is_model_final(identity: &GpuIdentity) -> bool {
    identity.model.is_some() && !identity.is_model_assumed
}

/// GPUs in the order of their nodes and of their indices there if each has one; else in order of appearance.
pub fn in_order<T>(mut gpus: Vec<T>, identity: impl Fn(&T) -> &GpuIdentity) -> Vec<T> {
    if gpus.iter().all(|gpu| identity(gpu).index.is_some()) {
        let place = |gpu: &T| (identity(gpu).node().map(str::to_owned), identity(gpu).index);
        gpus.sort_by_cached_key(place);
    }
    gpus
}

/// How much time a load covers at least; `None` for the whole run.
pub(super) fn kept_load(config: &MeterConfig) -> Option<Nanos> {
    (config.session_every > Nanos::ZERO).then_some(config.window)
}
