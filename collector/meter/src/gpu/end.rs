//! The end of the input, and of the run.

use super::{GpuMeter, Observer, post_to};
use crate::staleness;
use crate::units::{Nanos, Timestamp};

impl GpuMeter {
    /// At the end of the input, ingests the readings before `until` that wait.
    pub fn drain(&mut self, until: Timestamp, observer: &mut impl Observer) {
        self.drain_while(|at| at < until, observer);
    }

    /// Ends the input of a log. The last reading covers no time; its time is the end of the run.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        self.drain_all(observer);
        if let Some(last) = self.last {
            self.end_at(last.at, observer);
        }
    }

    /// Ends the run at `end`. The last reading covers the time until then, up to `stale_after`.
    pub fn finish_at(&mut self, end: Timestamp, observer: &mut impl Observer) {
        self.drain_all(observer);
        match (self.last, self.start) {
            (Some(last), _) => {
                self.post_after(&last, end, observer);
                self.end_at(end.max(last.at), observer);
            }
            (None, Some(start)) => {
                self.post_unobserved(start, end, observer);
                self.end_at(end, observer);
            }
            (None, None) => {}
        }
    }

    pub(super) fn drain_all(&mut self, observer: &mut impl Observer) {
        self.drain_while(|_| true, observer);
    }

    fn drain_while(&mut self, is_due: impl Fn(Timestamp) -> bool, observer: &mut impl Observer) {
        if self.stale_after.is_none() {
            let first = self.warmup.iter().map(|reading| reading.at);
            self.stale_after = Some(staleness::estimate(first.chain(self.reorder.times())));
        }
        while let Some(next) = self.warmup.pop_front_if(|reading| is_due(reading.at)) {
            self.advance(&next, self.stale_after.unwrap_or_default(), observer);
        }
        while self.warmup.is_empty()
            && self.reorder.next_at().is_some_and(&is_due)
            && let Some(next) = self.reorder.drain()
        {
            self.advance(&next, self.stale_after.unwrap_or_default(), observer);
        }
    }

    pub(super) fn end_at(&mut self, end: Timestamp, observer: &mut impl Observer) {
        self.energy.finish();
        self.record_energy_of_holders(end);
        self.timeline.finalize(end, &mut post_to(&mut self.ledger, observer));
        self.ledger.holders.finish();
        self.ledger.spans.finish(&mut |span| observer.span(span));
        self.watermark = end;
        if self.config.boundary_every > Nanos::ZERO {
            observer.end(end, self);
        }
    }
}
