//! The meter of one GPU: the whole pipeline from readings to accounts.
//!
//! It owns the state of one GPU, in memory that does not grow with the length of the run, and emits
//! finalized results to an [`Observer`].

mod alerts;
mod boundaries;
mod by_parts;
mod holders;
mod part;
mod parts;
mod posting;
mod queries;
mod rates;
mod rolling;
mod settings;
mod silence;
mod stated;
mod stated_part;

use std::collections::VecDeque;

use self::by_parts::ByParts;
pub use self::part::GpuPart;
use self::part::Parts;
pub use self::queries::EffectivePart;
use self::rolling::RollingWindow;
pub use self::rolling::WindowTotals;
pub use self::stated::{StatedAccounts, StatedState};
pub use self::stated_part::StatedPart;
use crate::accounts::{Charge, ChargeShare};
use crate::alert::{AlertChange, AlertEvaluator};
pub use crate::config::MeterConfig;
use crate::contradiction::Contradictions;
use crate::device_meter::DeviceMeter;
use crate::distribution::MemoryDistribution;
use crate::energy_meter::EnergyMeter;
use crate::ledger::Ledger;
use crate::money::Rate;
use crate::pattern::CycleDetector;
use crate::reading::{Interval, Reading};
use crate::reorder::{LateReading, ReorderBuffer};
use crate::sensors::Sensors;
use crate::series::Series;
use crate::span::PhaseSpan;
use crate::staleness;
use crate::summary::Unobserved;
use crate::timeline::{TimeSlice, Timeline};
use crate::units::{Bytes, Milliwatts, Nanos, Timestamp};
use crate::utilization_feed::UtilizationFeed;
use crate::wall_time::{WallOffset, WallSteps};

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

/// Meters one GPU.
#[derive(Clone, Debug)]
pub struct GpuMeter {
    config: MeterConfig,
    reorder: ReorderBuffer,
    /// The first readings, which wait until `stale_after` is estimated.
    warmup: VecDeque<Reading>,
    stale_after: Option<Nanos>,
    start: Option<Timestamp>,
    last: Option<Reading>,
    /// The end of the time after the last reading that is posted already, if any is.
    silent_until: Option<Timestamp>,
    /// Time within the span that is not billed, since the GPU was absent.
    absent: Nanos,
    /// Watermark: everything earlier is final and has been emitted.
    watermark: Timestamp,
    next_boundary: Timestamp,
    /// The wall time at the watermark, and the steps of the wall clock after it.
    wall: WallOffset,
    steps: WallSteps,
    /// Boundaries that were requested, beside the regular ones, in time order.
    requested: Vec<Timestamp>,
    timeline: Timeline,
    ledger: Ledger,
    cycle_detector: CycleDetector,
    /// The polled utilization, and the other utilization feeds.
    polled: UtilizationFeed,
    /// Σ utilization × time of the polled utilization where another feed was billed, in ppm·ns.
    polled_beside: u128,
    feeds: Vec<UtilizationFeed>,
    by_parts: ByParts,
    memory: MemoryDistribution,
    memory_total: Option<Bytes>,
    energy: EnergyMeter,
    series: Series,
    unobserved: Unobserved,
    sensors: Sensors,
    contradictions: Contradictions,
    /// The recent window, if sessions end.
    window: Option<RollingWindow>,
    /// The parts of the run, if any are to end before it.
    parts: Option<Box<Parts>>,
    /// The rules for alerts, if there are any.
    alerts: Option<Box<AlertEvaluator>>,
    power_limit: Option<Milliwatts>,
    device: DeviceMeter,
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
            warmup: VecDeque::new(),
            stale_after: config.stale_after.fixed(),
            start: None,
            last: None,
            silent_until: None,
            absent: Nanos::ZERO,
            watermark: start,
            next_boundary: Timestamp::LAST,
            wall: WallOffset::default(),
            steps: WallSteps::default(),
            requested: Vec::new(),
            timeline: Timeline::new(start, config.thresholds),
            ledger: Ledger::new(rate, &config),
            cycle_detector: CycleDetector::default(),
            polled: UtilizationFeed::new(config.polled_basis),
            polled_beside: 0,
            feeds: Vec::new(),
            by_parts: ByParts::default(),
            memory: MemoryDistribution::default(),
            memory_total,
            energy: EnergyMeter::default(),
            series: Series::new(start),
            unobserved: Unobserved::default(),
            sensors: Sensors::default(),
            contradictions: Contradictions::default(),
            window: None,
            parts: None,
            alerts: None,
            power_limit: None,
            device: DeviceMeter::default(),
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
        mut reading: Reading,
        observer: &mut impl Observer,
    ) -> Result<(), LateReading> {
        self.device.complete(&mut reading);
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

    /// The first boundary after the oldest reading that waits; `None` if none waits.
    #[must_use]
    pub fn next_boundary(&self) -> Option<Timestamp> {
        let first = self.warmup.front().map(|reading| reading.at);
        let next = first.or_else(|| self.reorder.next_at());
        next.map(|at| self.config.boundary_after(at, self.wall))
    }

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

    fn drain_all(&mut self, observer: &mut impl Observer) {
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

    fn end_at(&mut self, end: Timestamp, observer: &mut impl Observer) {
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

    /// The wall clock stepped at `at`, a whole second after all time metered so far: a session ends, and
    /// another begins with this wall time.
    pub fn step_wall_clock(&mut self, at: Timestamp, wall: WallOffset) {
        self.steps.push(at, wall);
        self.plan_boundary(self.watermark);
    }

    /// Ingests a reading. The first readings of a log wait until `stale_after` is estimated.
    fn ingest(&mut self, reading: &Reading, observer: &mut impl Observer) {
        match self.stale_after {
            Some(stale_after) if self.warmup.is_empty() => {
                self.advance(reading, stale_after, observer);
            }
            _ => self.warm_up(*reading, observer),
        }
    }

    /// Once `stale_after` is estimated, ingests two readings for each that arrives, until none waits: GPUs
    /// whose first readings ended the wait at once would reach many boundaries one GPU after another.
    #[inline(never)]
    fn warm_up(&mut self, reading: Reading, observer: &mut impl Observer) {
        self.warmup.push_back(reading);
        if self.warmup.len() == staleness::READINGS_NEEDED {
            let times = self.warmup.iter().map(|reading| reading.at);
            self.stale_after.get_or_insert_with(|| staleness::estimate(times));
        }
        let Some(stale_after) = self.stale_after else { return };
        for _ in 0..2 {
            if let Some(next) = self.warmup.pop_front() {
                self.advance(&next, stale_after, observer);
            }
        }
        if self.warmup.is_empty() {
            self.warmup.shrink_to_fit();
        }
    }

    /// Posts the time up to `reading`, then records its values.
    #[inline(always)]
    fn advance(&mut self, reading: &Reading, stale_after: Nanos, observer: &mut impl Observer) {
        if reading.begins_instance {
            self.exempt_before_instance(reading.at, stale_after);
        }
        match (self.last, self.start) {
            (Some(last), _) if self.silent_until.is_some() => {
                self.post_after(&last, reading.at, observer);
                self.silent_until = None;
            }
            (Some(last), _) => self.post_until(&last, reading.at, stale_after, observer),
            (None, Some(start)) => self.post_before_first(reading, start, stale_after, observer),
            (None, None) => self.begin(reading.at, observer),
        }
        self.timeline.advance(reading.at, &mut post_to(&mut self.ledger, observer));
        self.record(reading);
        observer.reading(reading);
        self.last = Some(*reading);
    }

    #[inline(never)]
    fn begin(&mut self, start: Timestamp, observer: &mut impl Observer) {
        self.start = Some(start);
        self.watermark = start;
        self.plan_boundary(start);
        self.timeline = Timeline::new(start, self.config.thresholds);
        self.series = Series::new(start);
        let sessions_end = self.config.session_every > Nanos::ZERO;
        self.window = sessions_end.then(|| RollingWindow::new(&self.config, start));
        if let Some(accrual) = &mut self.ledger.accrual {
            accrual.begin(start);
        }
        if let Some(alerts) = &mut self.alerts {
            alerts.begin(start);
        }
        observer.begin(start);
    }

    /// The feed of the configured basis, if that is not polling and has data.
    fn configured_feed(&self) -> Option<&UtilizationFeed> {
        self.feeds.iter().find(|feed| feed.basis() == self.config.basis)
    }

    #[inline(always)]
    fn record(&mut self, reading: &Reading) {
        self.record_holding(reading);
        match reading.utilization {
            Ok(utilization) => self.polled.record(reading.at, utilization),
            Err(_) => self.polled.interrupt(),
        }
        if let Some(used) = reading.memory_used {
            self.memory.record(used);
            self.parts.iter_mut().for_each(|parts| parts.memory.record(used));
        }
        let (energy, counter) = (reading.energy, reading.energy_counter);
        self.energy.record(reading.at, energy, counter, self.power_limit);
        self.record_energy_of_holders(reading.at);
        self.sensors.record(reading);
    }

    #[inline]
    fn record_holding(&mut self, reading: &Reading) {
        let allocated = self.ledger.holders.is_allocated(reading.at);
        let held = reading.is_held(self.memory_total).into_iter().chain(allocated);
        if let Some(held) = held.reduce(|held, other| held || other) {
            self.timeline.record_held(held);
        }
        let [idle, ..] = self.config.thresholds.bounds();
        if !self.ledger.holders.is_empty() && reading.is_touched(self.memory_total, idle) {
            self.ledger.holders.touch_any(reading.at, self.by_parts.are_apart);
        }
    }
}

/// Posts time slices to `ledger` and emits the spans that end.
fn post_to(ledger: &mut Ledger, observer: &mut impl Observer) -> impl FnMut(TimeSlice) {
    move |slice| {
        let charge = ledger.post(slice, &mut |span| observer.span(span));
        observer.charge(&charge);
        if !ledger.holders.is_empty() {
            observer.shares(ledger.holders.shares());
        }
    }
}
