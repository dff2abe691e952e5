//! Keeps what the time of a GPU cost, until it is taken, and passes it to the groups of work and to the load of its
//! group.

use phasemeter_meter::accounts::{Charge, ChargeShare};
use phasemeter_meter::alert::AlertChange;
use phasemeter_meter::gpu::{GpuMeter, Observer};
use phasemeter_meter::load::LoadFeed;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Milliwatts, Timestamp};
use phasemeter_otlp::encode::GpuObserver;

use super::serving::Serving;

/// Charges of a GPU, in time order.
#[derive(Debug, Default)]
pub(super) struct ChargeLog {
    charges: Vec<LoggedCharge>,
    /// Power of the last reading, which covers the time after it.
    power: Option<Milliwatts>,
}

/// A charge.
#[derive(Debug)]
#[cfg_attr(not(feature = "full"), allow(dead_code))]
pub(super) struct LoggedCharge {
    pub(super) charge: Charge,
    /// The power of its time.
    pub(super) power: Option<Milliwatts>,
    /// How it is divided among holders; empty if the GPU never had one.
    pub(super) shares: Vec<ChargeShare>,
}

impl ChargeLog {
    /// Takes the charges since the last call.
    #[cfg_attr(not(feature = "full"), allow(dead_code))]
    pub(super) fn take(&mut self) -> Vec<LoggedCharge> {
        std::mem::take(&mut self.charges)
    }
}

/// Those that a GPU passes its results to: the export and the log of its charges, if there are any.
pub(super) struct Observers<'a> {
    pub(super) export: Option<GpuObserver<'a>>,
    pub(super) charges: Option<&'a mut ChargeLog>,
    pub(super) serving: &'a mut Serving,
    pub(super) load: &'a mut LoadFeed,
}

impl Observers<'_> {
    /// Passes what time costs by group to the export, which is about to have a boundary.
    fn pass_served(&mut self) {
        if let Some(export) = &mut self.export {
            export.add_served(&self.serving.take());
        }
    }
}

impl Observer for Observers<'_> {
    fn begin(&mut self, at: Timestamp) {
        if let Some(export) = &mut self.export {
            export.begin(at);
        }
    }

    fn reading(&mut self, reading: &Reading) {
        if let Some(export) = &mut self.export {
            export.reading(reading);
        }
        if let Some(charges) = &mut self.charges {
            charges.power = reading.power;
        }
    }

    fn span(&mut self, span: &PhaseSpan) {
        if let Some(export) = &mut self.export {
            export.span(span);
        }
    }

    fn charge(&mut self, charge: &Charge) {
        self.serving.charge(charge);
        self.load.post(&charge.slice);
        if let Some(ChargeLog { charges, power }) = self.charges.as_deref_mut() {
            charges.push(LoggedCharge { charge: *charge, power: *power, shares: Vec::new() });
        }
    }

    fn shares(&mut self, shares: &[ChargeShare]) {
        let log = self.charges.as_deref_mut();
        if let Some(last) = log.and_then(|log| log.charges.last_mut()) {
            last.shares = shares.to_vec();
        }
    }

    fn boundary(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.pass_served();
        if let Some(export) = &mut self.export {
            export.boundary(at, gpu);
        }
    }

    fn end(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.pass_served();
        if let Some(export) = &mut self.export {
            export.end(at, gpu);
        }
    }

    fn session(&mut self, at: Timestamp) {
        if let Some(export) = &mut self.export {
            export.session(at);
        }
    }

    fn alert(&mut self, change: &AlertChange<'_>) {
        if let Some(export) = &mut self.export {
            export.alert(change);
        }
    }
}
