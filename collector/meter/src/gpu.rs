//! The meter of one GPU: the whole pipeline from readings to accounts.
//!
//! It owns the state of one GPU, in memory that does not grow with the length of the run, and emits
//! finalized results to an [`Observer`]. Must not depend on observers or on other GPUs.

mod queries;
mod rates;
mod rolling;

use self::rolling::RollingWindow;
pub use self::rolling::WindowTotals;
pub use crate::config::MeterConfig;
use crate::distribution::MemoryDistribution;
use crate::energy::EnergyMeter;
use crate::ledger::Ledger;
use crate::money::Rate;
use crate::pattern::CycleDetector;
use crate::reading::{Basis, Interval, MissingReason, Reading};
use crate::reorder::{LateReading, ReorderBuffer};
use crate::series::{Quantity, Series};
use crate::span::PhaseSpan;
use crate::staleness;
use crate::summary::Unobserved;
use crate::timeline::{TimeSlice, Timeline};
use crate::units::{Bytes, Nanos, Timestamp, Utilization};
use crate::utilization_feed::UtilizationFeed;

/// Receives finalized results. `()` is the no-op observer.
pub trait Observer {
    /// The span of the GPU begins. Nothing is emitted before.
    fn begin(&mut self, _at: Timestamp) {}
    /// A reading has been ingested. Readings arrive in time order.
    fn reading(&mut self, _reading: &Reading) {}
    /// A span has ended.
    fn span(&mut self, _span: &PhaseSpan) {}
    /// The state of `gpu` at the instant `at`: everything before it and nothing after it.
    fn boundary(&mut self, _at: Timestamp, _gpu: &GpuMeter) {}
    /// A session ended at `at` and the next begins. Its spans and its boundary have been emitted.
    fn session(&mut self, _at: Timestamp) {}
}

impl Observer for () {}

/// Meters one GPU.
#[derive(Clone, Debug)]
pub struct GpuMeter {
    config: MeterConfig,
    reorder: ReorderBuffer,
    /// The first readings, buffered until `stale_after` is estimated.
    warmup: Vec<Reading>,
    stale_after: Option<Nanos>,
    start: Option<Timestamp>,
    last: Option<Reading>,
    /// Watermark: everything earlier is final and has been emitted.
    watermark: Timestamp,
    next_boundary: Timestamp,
    timeline: Timeline,
    ledger: Ledger,
    cycle_detector: CycleDetector,
    /// The polled utilization, and the other utilization feeds.
    polled: UtilizationFeed,
    feeds: Vec<UtilizationFeed>,
    memory: MemoryDistribution,
    memory_total: Option<Bytes>,
    energy: EnergyMeter,
    series: Series,
    unobserved: Unobserved,
    /// The recent window, if sessions end.
    window: Option<RollingWindow>,
}

impl GpuMeter {
    /// A meter without readings. `rate`: the price, `None` if unpriced. `memory_total`: more than
    /// 1% of it in use means held; `None` if unknown.
    #[must_use]
    pub fn new(config: MeterConfig, rate: Option<Rate>, memory_total: Option<Bytes>) -> Self {
        let start = Timestamp::default();
        Self {
            config,
            reorder: ReorderBuffer::new(config.allowed_lateness),
            warmup: Vec::new(),
            stale_after: config.stale_after.fixed(),
            start: None,
            last: None,
            watermark: start,
            next_boundary: Timestamp::LAST,
            timeline: Timeline::new(start, config.thresholds),
            ledger: Ledger::new(rate, config.min_span),
            cycle_detector: CycleDetector::default(),
            polled: UtilizationFeed::new(Basis::NvmlGpu),
            feeds: Vec::new(),
            memory: MemoryDistribution::default(),
            memory_total,
            energy: EnergyMeter::default(),
            series: Series::new(start),
            unobserved: Unobserved::default(),
            window: None,
        }
    }

    /// Begins the span at `start`, before the first reading, which then also covers the time before
    /// it, up to `stale_after`: a driver reports the mean of the time before a call. Without this the
    /// span begins at the first reading.
    pub fn begin_at(&mut self, start: Timestamp, observer: &mut impl Observer) {
        self.reorder.begin_at(start);
        self.begin(start, observer);
    }

    /// Adds a reading; readings may arrive out of order within the allowed lateness.
    ///
    /// # Errors
    /// Returns an error if the reading is older than the watermark.
    pub fn push(
        &mut self,
        reading: Reading,
        observer: &mut impl Observer,
    ) -> Result<(), LateReading> {
        self.reorder.push(reading)?;
        while let Some(next) = self.reorder.pop() {
            self.ingest(&next, observer);
        }
        Ok(())
    }

    /// Ingests the oldest buffered readings early, so that at most `keep` wait for older ones.
    pub fn release(&mut self, keep: usize, observer: &mut impl Observer) {
        while let Some(next) = self.reorder.pop_beyond(keep) {
            self.ingest(&next, observer);
        }
    }

    /// Adds an interval of a utilization feed other than polling. Returns whether any part of it
    /// was accepted, that is neither final nor covered already.
    pub fn push_interval(&mut self, interval: Interval) -> bool {
        let same = |feed: &UtilizationFeed| feed.basis() == interval.basis;
        let index = self.feeds.iter().position(same).unwrap_or_else(|| {
            self.feeds.push(UtilizationFeed::new(interval.basis));
            self.feeds.len() - 1
        });
        self.feeds[index].push(interval, self.watermark)
    }

    /// The first boundary after the oldest buffered reading; `None` if there is no such reading.
    #[must_use]
    pub fn next_boundary(&self) -> Option<Timestamp> {
        self.reorder.next_at().map(|at| self.config.boundary_after(at))
    }

    /// At the end of the input, ingests the buffered readings before `until`.
    pub fn drain(&mut self, until: Timestamp, observer: &mut impl Observer) {
        while self.reorder.next_at().is_some_and(|at| at < until)
            && let Some(next) = self.reorder.drain()
        {
            self.ingest(&next, observer);
        }
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
        let stale_after = self.stale_after.unwrap_or_default();
        match (self.last, self.start) {
            (Some(last), _) => {
                self.post_until(&last, end, stale_after, observer);
                self.end_at(end.max(last.at), observer);
            }
            (None, Some(start)) => {
                self.post_unobserved(start, end, observer);
                self.end_at(end, observer);
            }
            (None, None) => {}
        }
    }

    fn drain_all(&mut self, observer: &mut impl Observer) {
        while let Some(next) = self.reorder.drain() {
            self.ingest(&next, observer);
        }
        self.drain_warmup(observer);
    }

    fn end_at(&mut self, end: Timestamp, observer: &mut impl Observer) {
        self.timeline.finalize(end, &mut post_to(&mut self.ledger, observer));
        self.ledger.spans.finish(&mut |span| observer.span(span));
        self.watermark = end;
        if self.config.boundary_every > Nanos::ZERO {
            observer.boundary(end, self);
        }
    }

    /// Sets the memory size, for readings ingested from now on: more than 1% of it in use means
    /// held.
    pub const fn set_memory_total(&mut self, total: Option<Bytes>) {
        self.memory_total = total;
    }

    /// Ingests a reading. The first readings of a log are buffered until `stale_after` is
    /// estimated.
    fn ingest(&mut self, reading: &Reading, observer: &mut impl Observer) {
        if let Some(stale_after) = self.stale_after {
            self.advance(reading, stale_after, observer);
        } else {
            self.warmup.push(*reading);
            if self.warmup.len() == staleness::READINGS_NEEDED {
                self.drain_warmup(observer);
            }
        }
    }

    fn drain_warmup(&mut self, observer: &mut impl Observer) {
        let readings = std::mem::take(&mut self.warmup);
        let times = readings.iter().map(|reading| reading.at);
        let stale_after = *self.stale_after.get_or_insert_with(|| staleness::estimate(times));
        for reading in &readings {
            self.advance(reading, stale_after, observer);
        }
    }

    /// Posts the time up to `reading`, then records its values.
    fn advance(&mut self, reading: &Reading, stale_after: Nanos, observer: &mut impl Observer) {
        match (self.last, self.start) {
            (Some(last), _) => self.post_until(&last, reading.at, stale_after, observer),
            (None, Some(start)) => self.post_before_first(reading, start, stale_after, observer),
            (None, None) => self.begin(reading.at, observer),
        }
        self.timeline.advance(reading.at, &mut post_to(&mut self.ledger, observer));
        self.record(reading);
        observer.reading(reading);
        self.last = Some(*reading);
    }

    fn begin(&mut self, start: Timestamp, observer: &mut impl Observer) {
        self.start = Some(start);
        self.watermark = start;
        self.next_boundary = self.config.boundary_after(start);
        self.timeline = Timeline::new(start, self.config.thresholds);
        self.series = Series::new(start);
        let sessions_end = self.config.session_every > Nanos::ZERO;
        self.window = sessions_end.then(|| RollingWindow::new(&self.config, start));
        if let Some(accrual) = &mut self.ledger.accrual {
            accrual.begin(start);
        }
        observer.begin(start);
    }

    /// Posts the time from `start` to the first reading, which covers at most `stale_after` of it.
    fn post_before_first(
        &mut self,
        first: &Reading,
        start: Timestamp,
        stale_after: Nanos,
        observer: &mut impl Observer,
    ) {
        let from = first.at.saturating_sub(stale_after).max(start);
        self.post_unobserved(start, from, observer);
        if let Some(held) = first.is_held(self.memory_total) {
            self.timeline.record_held(held);
        }
        self.post_until(&Reading { at: from, ..*first }, first.at, stale_after, observer);
    }

    /// Posts time without any reading.
    fn post_unobserved(&mut self, from: Timestamp, to: Timestamp, observer: &mut impl Observer) {
        self.post_until(&Reading::at(from), to, Nanos::ZERO, observer);
    }

    /// Posts the time from `last` to `next`: `last` covers at most `stale_after` of it, and the
    /// rest is unobserved. Closes the boundaries in between.
    fn post_until(
        &mut self,
        last: &Reading,
        next: Timestamp,
        stale_after: Nanos,
        observer: &mut impl Observer,
    ) {
        let until = next.min(last.at + stale_after);
        let mut from = last.at;
        if next >= self.next_boundary {
            for boundary in self.config.boundaries(last.at, next) {
                self.post_covered(last, from, until.min(boundary), observer);
                self.post_range(until.max(from).min(boundary), boundary, Err(None), observer);
                self.close_boundary(boundary, observer);
                from = boundary;
            }
        }
        self.post_covered(last, from, until, observer);
        if until < next {
            self.post_range(until.max(from), next, Err(None), observer);
            self.polled.interrupt();
        }
    }

    /// Finalizes everything before `boundary` and emits the boundary, and the session's end if it
    /// is one.
    fn close_boundary(&mut self, boundary: Timestamp, observer: &mut impl Observer) {
        self.timeline.finalize(boundary, &mut post_to(&mut self.ledger, observer));
        let ends_session = self.config.ends_session(boundary);
        if ends_session {
            self.ledger.spans.finish(&mut |span| observer.span(span));
        }
        self.watermark = boundary;
        self.next_boundary = self.config.boundary_after(boundary);
        if ends_session {
            self.push_snapshot();
        }
        observer.boundary(boundary, self);
        if ends_session {
            observer.session(boundary);
        }
    }

    /// Adds a snapshot at the end of a session to the recent window.
    fn push_snapshot(&mut self) {
        let (from, snapshot) = (self.watermark.saturating_sub(self.config.window), self.snapshot());
        if let Some(window) = &mut self.window {
            window.push(snapshot, from);
        }
    }

    /// Posts the time from `from` to `to` with the values of `reading`.
    #[inline]
    fn post_covered(
        &mut self,
        reading: &Reading,
        from: Timestamp,
        to: Timestamp,
        observer: &mut impl Observer,
    ) {
        let time = to.since(from);
        if time == Nanos::ZERO {
            return;
        }
        if let Ok(utilization) = reading.utilization {
            self.polled.add(from, to, utilization);
        }
        if let Some(used) = reading.memory_used {
            self.record_series(Quantity::Memory, from, to, used.get());
        }
        if let Some(power) = reading.power {
            self.energy.add(power, reading.power_basis, time);
            self.record_series(Quantity::Power, from, to, power.get().into());
        }
        let observed = self.post_range(from, to, reading.utilization.map_err(Some), observer);
        if let Some(used) = reading.memory_used {
            self.memory.add(used, observed);
        }
    }

    /// Posts the time from `from` to `to`. At each instant the billed feed counts, else the polled
    /// utilization, else the reason why it is missing. Returns the observed time.
    fn post_range(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        polled: Result<Utilization, Option<MissingReason>>,
        observer: &mut impl Observer,
    ) -> Nanos {
        let mut observed = Nanos::ZERO;
        let mut at = from;
        while at < to {
            let (value, until) = self.configured_feed().map_or((None, to), |feed| feed.at(at, to));
            match value.map_or(polled, Ok) {
                Ok(utilization) => {
                    self.detect_cycles(at, utilization, observer);
                    let ppm = utilization.ppm().into();
                    self.record_series(Quantity::Utilization, at, until, ppm);
                    self.post_observed(at, until, utilization, observer);
                    observed += until.since(at);
                }
                Err(reason) => {
                    self.cycle_detector.interrupt();
                    *self.unobserved.time_mut(reason) += until.since(at);
                }
            }
            at = until;
        }
        for feed in &mut self.feeds {
            feed.finalize(from, to);
        }
        observed
    }

    fn record_series(&mut self, quantity: Quantity, from: Timestamp, to: Timestamp, value: u64) {
        self.series.record(quantity, from, to, value);
        if let Some(window) = &mut self.window {
            window.series.record(quantity, from, to, value);
        }
    }

    /// The feed of the configured basis, if that is not polling and has data.
    fn configured_feed(&self) -> Option<&UtilizationFeed> {
        self.feeds.iter().find(|feed| feed.basis() == self.config.basis)
    }

    /// Detects cycles. Posts the seconds before `at` first, since a cycle change applies from `at`
    /// on.
    fn detect_cycles(
        &mut self,
        at: Timestamp,
        utilization: Utilization,
        observer: &mut impl Observer,
    ) {
        if self.cycle_detector.is_change(utilization) {
            self.timeline.advance(at, &mut post_to(&mut self.ledger, observer));
            let confirmed = self.cycle_detector.is_confirmed();
            if let Some(change) = self.cycle_detector.observe(at, utilization) {
                self.ledger.waste.apply(change, confirmed);
                self.window.iter_mut().for_each(|window| window.apply(change, confirmed));
            }
        }
    }

    /// Observes the time from `from` to `to`, cut at each change of the rate so that a time slice
    /// has one rate.
    fn post_observed(
        &mut self,
        mut from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        observer: &mut impl Observer,
    ) {
        while from < to {
            let change = self.ledger.accrual.as_ref().and_then(|accrual| accrual.next_change(from));
            let until = change.map_or(to, |change| change.min(to));
            let mut post = post_to(&mut self.ledger, observer);
            self.timeline.observe(from, until, utilization, &mut post);
            if change == Some(until) {
                self.timeline.cut();
            }
            from = until;
        }
    }

    fn record(&mut self, reading: &Reading) {
        if let Some(held) = reading.is_held(self.memory_total) {
            self.timeline.record_held(held);
        }
        match reading.utilization {
            Ok(utilization) => self.polled.record(reading.at, utilization),
            Err(_) => self.polled.interrupt(),
        }
        if let Some(used) = reading.memory_used {
            self.memory.record(used);
        }
        self.energy.record(reading.at, reading.energy);
    }
}

/// Posts time slices to `ledger` and emits the spans that end.
fn post_to(ledger: &mut Ledger, observer: &mut impl Observer) -> impl FnMut(TimeSlice) {
    move |slice| ledger.post(slice, &mut |span| observer.span(span))
}
