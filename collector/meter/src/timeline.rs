//! The timeline of one GPU, cut at whole UTC seconds.
//!
//! Takes utilization intervals in time order and emits time slices, each in exactly one account.
//! Slices tile the time from the first reading to the last. A second is classified once it is over,
//! by the time-weighted mean of its observed part.

use crate::phase::{Account, Holding, Thresholds};
use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp, Utilization};

/// Time in one account: within one second, whole seconds of one utilization, or unobserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSlice {
    /// Start.
    pub from: Timestamp,
    /// End (exclusive).
    pub to: Timestamp,
    /// The account of all of it.
    pub account: Account,
    /// Σ utilization × time, in ppm·ns.
    pub weighted: u128,
    /// Whether its seconds are observed and have a mean utilization below 1%: no work.
    pub quiet: bool,
}

impl TimeSlice {
    /// The parts before and after `at`. Longer than a second, a slice has one utilization, so its parts
    /// have that too.
    #[must_use]
    pub fn split_at(self, at: Timestamp) -> (Self, Self) {
        let at = at.clamp(self.from, self.to);
        let length = u128::from(self.to.since(self.from).0);
        let ppm = self.weighted.checked_div(length).unwrap_or_default();
        let weighted =
            if at == self.to { self.weighted } else { ppm * u128::from(at.since(self.from).0) };
        let before = Self { to: at, weighted, ..self };
        (before, Self { from: at, weighted: self.weighted - weighted, ..self })
    }
}

/// Mean utilization of a second below which it is quiet: 1%.
const QUIET: u64 = 10_000;

/// Contiguous observed time in the current second.
#[derive(Clone, Copy, Debug)]
struct ObservedRange {
    from: Timestamp,
    to: Timestamp,
    /// Σ utilization × time in ppm·ns: at most 10¹⁵ in one second.
    weighted: u64,
}

/// Cuts observed intervals at whole seconds and classifies each second.
#[derive(Clone, Debug)]
pub struct Timeline {
    thresholds: Thresholds,
    /// Everything before this instant has been emitted.
    emitted_until: Timestamp,
    /// Start of the current second.
    second: Timestamp,
    /// Observed ranges in the current second.
    ranges: Vec<ObservedRange>,
    /// Whether a reading in the current second found the GPU held.
    held_in_second: Option<bool>,
    /// Holding as last reported.
    last_held: Option<bool>,
    /// Start a new range, even if the next interval is contiguous.
    cut: bool,
}

impl Timeline {
    /// A timeline that begins at the first reading.
    #[must_use]
    pub fn new(start: Timestamp, thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            emitted_until: start,
            second: start.floor_second(),
            ranges: Vec::new(),
            held_in_second: None,
            last_held: None,
            cut: false,
        }
    }

    /// Records whether the GPU was held, by a reading in the current second.
    #[inline]
    pub fn record_held(&mut self, held: bool) {
        self.held_in_second = Some(held || self.held_in_second == Some(true));
        self.last_held = Some(held);
    }

    /// Whether any reading so far reported holding.
    #[must_use]
    pub const fn is_holding_known(&self) -> bool {
        self.last_held.is_some()
    }

    /// Ends the current range, so that a time slice ends at a rate change.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Adds the time `from`..`to` at this utilization. Intervals must be in time order.
    #[inline]
    pub fn observe(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        emit: &mut impl FnMut(TimeSlice),
    ) {
        if from < to && to.since(self.second) <= Nanos::SECOND {
            self.extend(from, to, utilization);
        } else {
            self.observe_seconds(from, to, utilization, emit);
        }
    }

    /// Like [`Self::observe`], for time that reaches beyond the current second.
    fn observe_seconds(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        emit: &mut impl FnMut(TimeSlice),
    ) {
        let mut at = from;
        while at < to {
            self.advance(at, emit);
            let end = if at == self.second && to.since(at) > Nanos::SECOND && self.is_constant() {
                let end = to.floor_second();
                self.emit_whole_seconds(at, end, utilization, emit);
                end
            } else {
                let end = to.min(self.second + Nanos::SECOND);
                self.extend(at, end, utilization);
                end
            };
            at = end;
        }
    }

    /// Emits the current second if it is over at `now`.
    #[inline]
    pub fn advance(&mut self, now: Timestamp, emit: &mut impl FnMut(TimeSlice)) {
        if now.since(self.second) >= Nanos::SECOND {
            self.begin_second(now, emit);
        }
    }

    #[inline(never)]
    fn begin_second(&mut self, now: Timestamp, emit: &mut impl FnMut(TimeSlice)) {
        self.emit_second(emit);
        self.second = now.floor_second();
        self.held_in_second = None;
    }

    /// Emits everything up to `end`, as unobserved if nothing was observed. No interval may follow
    /// in the second of `end`, unless `end` is a whole second.
    pub fn finalize(&mut self, end: Timestamp, emit: &mut impl FnMut(TimeSlice)) {
        self.advance(end, emit);
        if end > self.second {
            self.emit_second(emit);
        }
        self.emit_gap(end, emit);
    }

    /// Whether whole seconds of one utilization can be emitted as one slice.
    fn is_constant(&self) -> bool {
        self.ranges.is_empty()
            && (self.held_in_second.is_none() || self.held_in_second == self.last_held)
    }

    /// Adds time within the current second.
    #[inline]
    fn extend(&mut self, from: Timestamp, to: Timestamp, utilization: Utilization) {
        let weighted = to.since(from).0 * u64::from(utilization.ppm());
        match self.ranges.last_mut() {
            Some(range) if range.to == from && !self.cut => {
                range.to = to;
                range.weighted += weighted;
            }
            _ => self.ranges.push(ObservedRange { from, to, weighted }),
        }
        self.cut = false;
    }

    fn emit_whole_seconds(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
        emit: &mut impl FnMut(TimeSlice),
    ) {
        let one_second = u64::from(utilization.ppm()) * NANOS_PER_SECOND;
        let phase = self.thresholds.classify(one_second, Nanos::SECOND);
        let account = Account::of(phase, holding(self.last_held));
        let weighted = u128::from(utilization.ppm()) * u128::from(to.since(from).0);
        self.emit_gap(from, emit);
        let quiet = u64::from(utilization.ppm()) < QUIET;
        emit(TimeSlice { from, to, account, weighted, quiet });
        self.emitted_until = to;
        self.second = to;
        self.held_in_second = None;
        self.cut = false;
    }

    fn emit_second(&mut self, emit: &mut impl FnMut(TimeSlice)) {
        let observed: Nanos = self.ranges.iter().map(|range| range.to.since(range.from)).sum();
        if observed == Nanos::ZERO {
            return;
        }
        let weighted = self.ranges.iter().map(|range| range.weighted).sum();
        let phase = self.thresholds.classify(weighted, observed);
        let account = Account::of(phase, holding(self.held_in_second.or(self.last_held)));
        let quiet = weighted < observed.0 * QUIET;
        let mut ranges = std::mem::take(&mut self.ranges);
        for range in ranges.drain(..) {
            self.emit_gap(range.from, emit);
            let weighted = u128::from(range.weighted);
            emit(TimeSlice { from: range.from, to: range.to, account, weighted, quiet });
            self.emitted_until = range.to;
        }
        self.ranges = ranges;
    }

    fn emit_gap(&mut self, to: Timestamp, emit: &mut impl FnMut(TimeSlice)) {
        if self.emitted_until < to {
            emit(TimeSlice {
                from: self.emitted_until,
                to,
                account: Account::Unobserved,
                weighted: 0,
                quiet: false,
            });
            self.emitted_until = to;
        }
    }
}

const fn holding(held: Option<bool>) -> Holding {
    match held {
        None => Holding::Unknown,
        Some(false) => Holding::Free,
        Some(true) => Holding::Held,
    }
}
