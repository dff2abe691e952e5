//! The meter of one GPU: the whole line from its readings to its accounts.
//!
//! It owns all that is known of that GPU, in memory that does not grow with the run, and tells an
//! [`Observer`] what is settled. It must not know who observes, nor of other GPUs.

mod known;

use self::known::Day;
pub use self::known::Recent;
use crate::books::Books;
pub use crate::config::MeterConfig;
use crate::distribution::MemoryDistribution;
use crate::energy::Energy;
use crate::hold;
use crate::measure::Measure;
use crate::money::Rate;
use crate::order::{Late, Order};
use crate::pattern::Bounces;
use crate::reading::{Absent, Basis, Interval, Reading};
use crate::series::{Quantity, Series};
use crate::span::Segment;
use crate::summary::Unobserved;
use crate::tariff::RateChangeError;
use crate::timeline::Timeline;
use crate::units::{Bytes, Nanos, Timestamp, Utilization};

/// Who is told what is settled. `()` is who does not listen.
pub trait Observer {
    /// A reading counts from now on. They come in the order of their time.
    fn reading(&mut self, _reading: &Reading) {}
    /// A span is over.
    fn span(&mut self, _span: &Segment) {}
    /// `gpu` holds what is true at the instant `at`: all before it, and nothing after.
    fn boundary(&mut self, _at: Timestamp, _gpu: &GpuMeter) {}
    /// A session ends at `at`, and the next begins. Its spans and its boundary are told.
    fn session(&mut self, _at: Timestamp) {}
}

impl Observer for () {}

/// Meters one GPU.
#[derive(Clone, Debug)]
pub struct GpuMeter {
    config: MeterConfig,
    order: Order,
    /// The first readings, until they have told `max_hold`.
    first: Vec<Reading>,
    max_hold: Option<Nanos>,
    start: Option<Timestamp>,
    last: Option<Reading>,
    /// Everything before this instant is settled and told.
    told: Timestamp,
    next_boundary: Timestamp,
    timeline: Timeline,
    books: Books,
    bounces: Bounces,
    /// What polling reads, and the other measures there are.
    polled: Measure,
    measures: Vec<Measure>,
    memory: MemoryDistribution,
    memory_total: Option<Bytes>,
    energy: Energy,
    series: Series,
    unobserved: Unobserved,
    /// Where sessions end.
    day: Option<Day>,
}

impl GpuMeter {
    /// Begins a GPU. `rate`: what it costs; `None` where nobody knows. `memory_total`: what more
    /// than 1 % of holds it; `None` where nobody knows.
    #[must_use]
    pub fn new(config: MeterConfig, rate: Option<Rate>, memory_total: Option<Bytes>) -> Self {
        let start = Timestamp::default();
        Self {
            config,
            order: Order::new(config.lateness),
            first: Vec::new(),
            max_hold: config.max_hold.stated(),
            start: None,
            last: None,
            told: start,
            next_boundary: Timestamp::LAST,
            timeline: Timeline::new(start, config.thresholds),
            books: Books::new(rate, config.min_span),
            bounces: Bounces::default(),
            polled: Measure::new(Basis::NvmlGpu),
            measures: Vec::new(),
            memory: MemoryDistribution::default(),
            memory_total,
            energy: Energy::default(),
            series: Series::new(start),
            unobserved: Unobserved::default(),
            day: None,
        }
    }

    /// Takes a reading in, in whatever order within the lateness window.
    ///
    /// # Errors
    /// Where it is too late.
    pub fn push(&mut self, reading: Reading, observer: &mut impl Observer) -> Result<(), Late> {
        self.order.push(reading)?;
        while let Some(next) = self.order.pop() {
            self.arrive(&next, observer);
        }
        Ok(())
    }

    /// Takes in what another measure than polling says of a stretch of time; whether it came in
    /// time to say anything.
    pub fn push_interval(&mut self, interval: Interval) -> bool {
        let same = |measure: &Measure| measure.basis() == interval.basis;
        let place = self.measures.iter().position(same).unwrap_or_else(|| {
            self.measures.push(Measure::new(interval.basis));
            self.measures.len() - 1
        });
        self.measures[place].push(interval, self.told)
    }

    /// Nothing follows. The last reading covers nothing, and its time is the end.
    pub fn finish(&mut self, observer: &mut impl Observer) {
        while let Some(next) = self.order.drain() {
            self.arrive(&next, observer);
        }
        self.begin_with_first(observer);
        let Some(end) = self.last.map(|last| last.at) else { return };
        self.timeline.settle(end, &mut |piece| self.books.enter(piece, observer));
        self.books.spans.finish(&mut |span| observer.span(span));
        self.told = end;
        if self.config.boundary_every > Nanos::ZERO {
            observer.boundary(end, self);
        }
    }

    /// From `at` on it costs `rate`.
    ///
    /// # Errors
    /// Where time after `at` is charged already, or the GPU has no price.
    pub fn change_rate(&mut self, at: Timestamp, rate: Rate) -> Result<(), RateChangeError> {
        let tariff = self.books.tariff.as_mut().ok_or(RateChangeError::Unpriced)?;
        Ok(tariff.change(at, rate)?)
    }

    /// Of so much memory more than 1 % holds the GPU, in readings that count from now on.
    pub const fn know_memory_total(&mut self, total: Option<Bytes>) {
        self.memory_total = total;
    }

    /// The measures of utilization: what polling reads first.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        std::iter::once(&self.polled).chain(&self.measures)
    }

    /// Utilization, power and memory over time.
    #[must_use]
    pub const fn series(&self) -> &Series {
        &self.series
    }

    /// The last reading that counts.
    #[must_use]
    pub const fn last(&self) -> Option<&Reading> {
        self.last.as_ref()
    }

    /// Where it begins, as far as is known: until the first reading counts, an older one may come.
    #[must_use]
    pub fn begins(&self) -> Option<Timestamp> {
        let first = || self.first.first().map(|reading| reading.at);
        self.start.or_else(first).or_else(|| self.order.next_at())
    }

    /// The start of the phase span that holds `at`, where that is settled.
    #[must_use]
    pub fn settled_span_start(&self, at: Timestamp) -> Option<Timestamp> {
        self.books.spans.settled_start(at)
    }

    /// The readings of a log wait until they have told how long each holds.
    fn arrive(&mut self, reading: &Reading, observer: &mut impl Observer) {
        if let Some(max_hold) = self.max_hold {
            self.advance(reading, max_hold, observer);
        } else {
            self.first.push(*reading);
            if self.first.len() == hold::READINGS {
                self.begin_with_first(observer);
            }
        }
    }

    fn begin_with_first(&mut self, observer: &mut impl Observer) {
        let first = std::mem::take(&mut self.first);
        let times = first.iter().map(|reading| reading.at);
        let max_hold = *self.max_hold.get_or_insert_with(|| hold::estimate(times));
        for reading in &first {
            self.advance(reading, max_hold, observer);
        }
    }

    /// The time up to this reading is settled: book it, then let the reading speak.
    fn advance(&mut self, reading: &Reading, max_hold: Nanos, observer: &mut impl Observer) {
        match self.last {
            Some(last) => self.elapse(&last, reading.at, max_hold, observer),
            None => self.begin(reading.at),
        }
        self.timeline.advance(reading.at, &mut |piece| self.books.enter(piece, observer));
        self.hear(reading);
        observer.reading(reading);
        self.last = Some(*reading);
    }

    fn begin(&mut self, start: Timestamp) {
        self.start = Some(start);
        self.told = start;
        self.next_boundary = self.config.boundary_after(start);
        self.timeline = Timeline::new(start, self.config.thresholds);
        self.series = Series::new(start);
        self.day = (self.config.session_every > Nanos::ZERO).then(|| Day::new(&self.config, start));
        if let Some(tariff) = &mut self.books.tariff {
            tariff.begin(start);
        }
    }

    /// `last` covers the time to `next`, at most `max_hold`; what is left is not known.
    fn elapse(
        &mut self,
        last: &Reading,
        next: Timestamp,
        max_hold: Nanos,
        observer: &mut impl Observer,
    ) {
        let until = next.min(last.at + max_hold);
        let mut from = last.at;
        if next >= self.next_boundary {
            for boundary in self.config.boundaries(last.at, next) {
                self.cover(last, from, until.min(boundary), observer);
                self.pass(until.max(from).min(boundary), boundary, Err(None), observer);
                self.reach(boundary, observer);
                from = boundary;
            }
        }
        self.cover(last, from, until, observer);
        if until < next {
            self.pass(until.max(from), next, Err(None), observer);
            self.polled.interrupt();
        }
    }

    /// Everything before `boundary` is settled: tells it. A session ends with all its spans.
    fn reach(&mut self, boundary: Timestamp, observer: &mut impl Observer) {
        self.timeline.settle(boundary, &mut |piece| self.books.enter(piece, observer));
        let ends_session = self.config.ends_session(boundary);
        if ends_session {
            self.books.spans.finish(&mut |span| observer.span(span));
        }
        self.told = boundary;
        self.next_boundary = self.config.boundary_after(boundary);
        if ends_session {
            self.mark();
        }
        observer.boundary(boundary, self);
        if ends_session {
            observer.session(boundary);
        }
    }

    /// What `reading` said was so from `from` to `to`.
    #[inline]
    fn cover(
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
            self.memory.add(used, time);
            self.follow(Quantity::Memory, from, to, used.get());
        }
        if let Some(power) = reading.power {
            self.follow(Quantity::Power, from, to, power.get().into());
        }
        self.pass(from, to, reading.utilization.map_err(Some), observer);
    }

    /// The time from `from` to `to` passes: at each instant the measure that the bill is made
    /// from counts, else what polling read, else why it read nothing.
    fn pass(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        polled: Result<Utilization, Option<Absent>>,
        observer: &mut impl Observer,
    ) {
        let mut at = from;
        while at < to {
            let (chosen, until) = self.chosen().map_or((None, to), |measure| measure.at(at, to));
            match chosen.map_or(polled, Ok) {
                Ok(utilization) => {
                    self.watch(at, utilization, observer);
                    let ppm = utilization.ppm().into();
                    self.follow(Quantity::Utilization, at, until, ppm);
                    self.observe(at, until, utilization, observer);
                }
                Err(absent) => {
                    self.bounces.interrupt();
                    *self.unobserved.of(absent) += until.since(at);
                }
            }
            at = until;
        }
        for measure in &mut self.measures {
            measure.settle(from, to);
        }
    }

    fn follow(&mut self, quantity: Quantity, from: Timestamp, to: Timestamp, value: u64) {
        self.series.hold(quantity, from, to, value);
        if let Some(day) = &mut self.day {
            day.series.hold(quantity, from, to, value);
        }
    }

    /// The measure that the bill is made from.
    fn billed(&self) -> &Measure {
        self.chosen().unwrap_or(&self.polled)
    }

    /// The measure that the bill is made from, where it is another than polling and says anything.
    fn chosen(&self) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.basis() == self.config.basis)
    }

    /// Looks for cycles. The seconds before are decided first: they lie in the stretch or not.
    fn watch(&mut self, at: Timestamp, utilization: Utilization, observer: &mut impl Observer) {
        if self.bounces.is_news(utilization) {
            self.timeline.advance(at, &mut |piece| self.books.enter(piece, observer));
            let confirmed = self.bounces.confirmed();
            if let Some(turn) = self.bounces.observe(at, utilization) {
                self.books.stretches.turn(turn, confirmed);
                self.day.iter_mut().for_each(|day| day.turn(turn, confirmed));
            }
        }
    }

    /// Cuts at each change of the rate, so that a piece has one.
    fn observe(
        &mut self,
        mut from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        observer: &mut impl Observer,
    ) {
        while from < to {
            let change = self.books.tariff.as_ref().and_then(|tariff| tariff.next_change(from));
            let until = change.map_or(to, |change| change.min(to));
            let mut book = |piece| self.books.enter(piece, observer);
            self.timeline.observe(from, until, utilization, &mut book);
            if until < to {
                self.timeline.cut();
            }
            from = until;
        }
    }

    fn hear(&mut self, reading: &Reading) {
        if let Some(held) = reading.holds(self.memory_total) {
            self.timeline.hold(held);
        }
        match reading.utilization {
            Ok(utilization) => self.polled.hear(reading.at, utilization),
            Err(_) => self.polled.interrupt(),
        }
        if let Some(used) = reading.memory_used {
            self.memory.see(used);
        }
        if let Some(counter) = reading.energy {
            self.energy.count(counter);
        }
    }
}
