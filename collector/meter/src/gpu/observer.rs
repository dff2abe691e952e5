//! What receives the results of a meter.

use super::GpuMeter;
use crate::accounts::{Charge, ChargeShare};
use crate::alert::AlertChange;
use crate::reading::Reading;
use crate::span::PhaseSpan;
use crate::units::Timestamp;

/// Receives finalized results. `()` is the no-op observer.
pub trait Observer {
    /// The span of the GPU begins. Nothing is emitted before.
    fn begin(&mut self, _at: Timestamp) {}
    /// A reading has been ingested. Readings arrive in time order.
    fn reading(&mut self, _reading: &Reading) {}
    /// A time slice has been charged. Slices tile the span of the GPU, in time order.
    fn charge(&mut self, _charge: &Charge) {}
    /// How the last charge is divided among those that hold the GPU and nobody. Not called if no holder was ever named.
    fn shares(&mut self, _shares: &[ChargeShare]) {}
    /// A span has ended.
    fn span(&mut self, _span: &PhaseSpan) {}
    /// The state of `gpu` at the instant `at`: everything before it and nothing after it.
    fn boundary(&mut self, _at: Timestamp, _gpu: &GpuMeter) {}
    /// The last state of `gpu`, at the end of its span; unless implemented, a boundary.
    fn end(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.boundary(at, gpu);
    }
    /// A session ended at `at` and the next begins. Its spans and its boundary have been emitted.
    fn session(&mut self, _at: Timestamp) {}
    /// An alert opened or closed.
    fn alert(&mut self, _change: &AlertChange<'_>) {}
}

impl Observer for () {}

/// Both get each result, one after the other.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn begin(&mut self, at: Timestamp) {
        self.0.begin(at);
        self.1.begin(at);
    }

    fn reading(&mut self, reading: &Reading) {
        self.0.reading(reading);
        self.1.reading(reading);
    }

    fn charge(&mut self, charge: &Charge) {
        self.0.charge(charge);
        self.1.charge(charge);
    }

    fn shares(&mut self, shares: &[ChargeShare]) {
        self.0.shares(shares);
        self.1.shares(shares);
    }

    fn span(&mut self, span: &PhaseSpan) {
        self.0.span(span);
        self.1.span(span);
    }

    fn boundary(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.0.boundary(at, gpu);
        self.1.boundary(at, gpu);
    }

    fn end(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.0.end(at, gpu);
        self.1.end(at, gpu);
    }

    fn session(&mut self, at: Timestamp) {
        self.0.session(at);
        self.1.session(at);
    }

    fn alert(&mut self, change: &AlertChange<'_>) {
        self.0.alert(change);
        self.1.alert(change);
    }
}
