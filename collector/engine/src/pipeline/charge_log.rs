//! Keeps what the time of a GPU cost, until it is taken, and passes it to the groups of work and to the load of its
//! group.

use phasemeter_meter::accounts::{Charge, ChargeShare};
use phasemeter_meter::alert::AlertChange;
use phasemeter_meter::gpu::{GpuMeter, Observer};
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Milliwatts, Timestamp};
use phasemeter_otlp::encode::GpuObserver;
use phasemeter_savings::load::LoadFeed;

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

/// Those that a GPU passes its results to.
pub(super) type Observers<'a> = (ServedExport<'a>, Charges<'a>);

/// The export, if there is one, which also has what time costs by group of work.
pub(super) struct ServedExport<'a> {
    pub(super) export: Option<GpuObserver<'a>>,
    pub(super) serving: &'a mut Serving,
}

/// What takes the charges of a GPU: the load of its group, and the log, if there is one.
pub(super) struct Charges<'a> {
    pub(super) load: &'a mut LoadFeed,
    pub(super) log: Option<&'a mut ChargeLog>,
}

impl Observer for Charges<'_> {
    fn reading(&mut self, reading: &Reading) {
        if let Some(log) = &mut self.log {
            log.power = reading.power;
        }
    }

    fn charge(&mut self, charge: &Charge) {
        self.load.post(&charge.slice);
        if let Some(ChargeLog { charges, power }) = self.log.as_deref_mut() {
            charges.push(LoggedCharge { charge: *charge, power: *power, shares: Vec::new() });
        }
    }

    fn shares(&mut self, shares: &[ChargeShare]) {
        let log = self.log.as_deref_mut();
        if let Some(last) = log.and_then(|log| log.charges.last_mut()) {
            last.shares = shares.to_vec();
        }
    }
}

impl Observer for ServedExport<'_> {
    fn begin(&mut self, at: Timestamp) {
        if let Some(export) = &mut self.export {
            export.begin(at);
        }
    }

    fn reading(&mut self, reading: &Reading) {
        if let Some(export) = &mut self.export {
            export.reading(reading);
        }
    }

    fn span(&mut self, span: &PhaseSpan) {
        if let Some(export) = &mut self.export {
            export.span(span);
        }
    }

    fn charge(&mut self, charge: &Charge) {
        self.serving.charge(charge);
    }

    fn boundary(&mut self, at: Timestamp, gpu: &GpuMeter) {
        if let Some(export) = &mut self.export {
            export.add_served(&self.serving.take());
            export.boundary(at, gpu);
        }
    }

    fn end(&mut self, at: Timestamp, gpu: &GpuMeter) {
        if let Some(export) = &mut self.export {
            export.add_served(&self.serving.take());
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
