//! The meter of one GPU: the whole pipeline from readings to accounts.
//!
//! It owns the state of one GPU, in memory that does not grow with the length of the run, and emits
//! finalized results to an [`Observer`].

mod alerts;
mod boundaries;
mod by_parts;
mod end;
mod holders;
mod observer;
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
mod warm_up;

use std::collections::VecDeque;

use self::by_parts::ByParts;
pub use self::observer::Observer;
pub use self::part::GpuPart;
use self::part::Parts;
pub use self::queries::EffectivePart;
use self::rolling::RollingWindow;
pub use self::rolling::WindowTotals;
pub use self::stated::{StatedAccounts, StatedState};
pub use self::stated_part::StatedPart;
use crate::alert::AlertEvaluator;
pub use crate::config::MeterConfig;
use crate::contradiction::Contradictions;
use crate::device_meter::DeviceMeter;
use crate::distribution::MemoryDistribution;
use crate::ends::EndMeter;
use crate::energy_meter::EnergyMeter;
use crate::ledger::Ledger;
use crate::money::Rate;
use crate::pattern::CycleDetector;
use crate::reading::{Interval, Reading};
use crate::reorder::{LateReading, ReorderBuffer};
use crate::sensors::Sensors;
use crate::series::Series;
use crate::stillness::StillMeter;
use crate::summary::Unobserved;
use crate::timeline::{TimeSlice, Timeline};
use crate::units::{Bytes, Milliwatts, Nanos, Timestamp};
use crate::utilization_feed::UtilizationFeed;
use crate::wall_time::{WallOffset, WallSteps};

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
    absent: silence::Absent,
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
    ends: EndMeter,
    still: StillMeter,
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
            absent: silence::Absent::default(),
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
            ends: EndMeter::default(),
            still: StillMeter::default(),
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

    /// The wall clock stepped at `at`, a whole second after all time metered so far: a session ends, and
    /// another begins with this wall time.
    pub fn step_wall_clock(&mut self, at: Timestamp, wall: WallOffset) {
        self.steps.push(at, wall);
        self.plan_boundary(self.watermark);
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
            let thresholds = self.config.thresholds;
            let [idle, ..] = thresholds.bounds();
            self.ledger.activity.record_memory(reading, used, idle);
            self.ends.record(reading, used, self.memory_total, thresholds);
            self.still.record(reading, used);
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
