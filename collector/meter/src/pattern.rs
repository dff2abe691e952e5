//! Utilization patterns of a GPU: idle, steady, bouncing or mixed.
//!
//! Detected from readings, not from seconds: a job that bounces between 0% and 100% within a second
//! has a mean of 50% in each second and would look steady. A stretch is a run of cycles that follow
//! one another within 120 s, each busy for a tenth of its length or more; a bouncing stretch has at
//! least ten of them.

use crate::median::{self, DurationMedian};
use crate::units::{Nanos, PPM, Timestamp, Utilization};

/// Below this, utilization is low: 10%.
const LOW: u32 = 100_000;

/// From this on, utilization is high: 70%.
const HIGH: u32 = 700_000;

/// Maximum length of a cycle, and of a pause between two cycles of one stretch.
const MAX_CYCLE: Nanos = Nanos::from_secs(120);

/// Minimum number of cycles of a bouncing stretch.
const MIN_CYCLES: usize = 10;

/// Minimum duty cycle, as a divisor: a tenth. A GPU that is busy less is not starved, but idle with
/// bursts.
const MIN_DUTY: u64 = 10;

/// Minimum observed time and readings for any pattern but bouncing.
const MIN_TIME: Nanos = Nanos::from_secs(30);
const MIN_READINGS: u64 = 10;

/// Percentile taken as "nearly all the time".
const UPPER_PERCENTILE: u32 = 95;

/// Maximum width of a steady band: 30 percentage points.
const MAX_STEADY_BAND: u32 = 300_000;

/// The kind of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// Below 10% nearly all the time.
    Idle,
    /// Within a narrow band nearly all the time.
    Steady,
    /// At least ten consecutive cycles between below 10% and at least 70%.
    Bouncing,
    /// None of these.
    Mixed,
}

impl PatternKind {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Steady => "steady",
            Self::Bouncing => "bouncing",
            Self::Mixed => "mixed",
        }
    }
}

/// The utilization pattern of a GPU over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The kind.
    pub kind: PatternKind,
    /// Median length of a cycle, to the millisecond; only if bouncing.
    pub period: Option<Nanos>,
    /// Share of a cycle at high utilization, in ppm; only if bouncing.
    pub duty_cycle: Option<u32>,
}

impl Pattern {
    /// The pattern of a window without bouncing, from the number of readings, the observed time and
    /// percentiles. `None` if there is too little data.
    #[must_use]
    pub fn without_bouncing(
        percentile: impl Fn(u32) -> Option<Utilization>,
        readings: u64,
        observed: Nanos,
    ) -> Option<Self> {
        if observed < MIN_TIME || readings < MIN_READINGS {
            return None;
        }
        let low = percentile(100 - UPPER_PERCENTILE)?.ppm();
        let high = percentile(UPPER_PERCENTILE)?.ppm();
        let kind = if high < LOW {
            PatternKind::Idle
        } else if high - low <= MAX_STEADY_BAND {
            PatternKind::Steady
        } else {
            PatternKind::Mixed
        };
        Some(Self { kind, period: None, duty_cycle: None })
    }
}

/// A change of the stretch of cycles in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleChange {
    /// The stretch ended before this instant, at which another may begin.
    StretchStarted(Timestamp),
    /// The stretch now extends to this instant, at which a cycle ended.
    StretchExtended(Timestamp),
}

/// A cycle that may have begun: utilization rose at `rise`.
#[derive(Clone, Copy, Debug)]
struct OpenCycle {
    rise: Timestamp,
    fall: Option<Timestamp>,
}

/// Totals of the counted cycles at an instant. The default is the state before the first cycle.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    periods: median::Snapshot,
    high: u128,
    total: u128,
}

/// Detects cycles between low and high utilization, and stretches of them, in constant memory.
#[derive(Clone, Debug, Default)]
pub struct CycleDetector {
    /// The last utilization.
    last: Option<Utilization>,
    /// Utilization was low, so the next high value is a rise.
    was_low: bool,
    open: Option<OpenCycle>,
    /// Start of the stretch in progress, or the end of its last cycle.
    stretch_end: Option<Timestamp>,
    /// Number of cycles of the stretch in progress, and their (period, high time) until there are
    /// enough.
    cycles: usize,
    unconfirmed: Vec<(Nanos, Nanos)>,
    periods: DurationMedian,
    high: u128,
    total: u128,
}

impl CycleDetector {
    /// Whether the utilization differs from the last.
    #[inline]
    #[must_use]
    pub fn is_change(&self, utilization: Utilization) -> bool {
        self.last != Some(utilization)
    }

    /// Records the utilization from `at` on.
    pub fn observe(&mut self, at: Timestamp, utilization: Utilization) -> Option<CycleChange> {
        self.last = Some(utilization);
        if utilization.ppm() < LOW {
            self.was_low = true;
            if let Some(open) = &mut self.open {
                open.fall.get_or_insert(at);
            }
            None
        } else if utilization.ppm() >= HIGH && std::mem::take(&mut self.was_low) {
            let previous = self.open.replace(OpenCycle { rise: at, fall: None });
            self.rise(at, previous)
        } else {
            None
        }
    }

    /// Discards the current cycle after a gap in observations.
    pub fn interrupt(&mut self) {
        self.last = None;
        self.was_low = false;
        self.open = None;
    }

    /// Whether the stretch in progress has enough cycles to be a bouncing stretch.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.cycles >= MIN_CYCLES
    }

    /// The bouncing pattern since a snapshot: median period and duty cycle over all stretches.
    /// `None` if there are too few cycles.
    #[must_use]
    pub fn bouncing_since(&self, snapshot: &Snapshot) -> Option<Pattern> {
        if self.periods.count_since(&snapshot.periods) < MIN_CYCLES as u64 {
            return None;
        }
        let period = self.periods.median_since(&snapshot.periods);
        let (high, total) = (self.high - snapshot.high, self.total - snapshot.total);
        let duty_cycle = (high * u128::from(PPM)).checked_div(total)?;
        let duty_cycle = u32::try_from(duty_cycle).unwrap_or(PPM);
        Some(Pattern { kind: PatternKind::Bouncing, period, duty_cycle: Some(duty_cycle) })
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { periods: self.periods.snapshot(), high: self.high, total: self.total }
    }

    fn rise(&mut self, at: Timestamp, previous: Option<OpenCycle>) -> Option<CycleChange> {
        let cycle = previous.and_then(|open| {
            let (period, fall) = (at.since(open.rise), open.fall?);
            let high = fall.since(open.rise);
            let is_cycle = period <= MAX_CYCLE && high.saturating_mul(MIN_DUTY) >= period;
            is_cycle.then_some((period, high))
        });
        let in_stretch =
            self.stretch_end.is_some_and(|stretch_end| at.since(stretch_end) <= MAX_CYCLE);
        match cycle {
            Some((period, high)) => {
                self.count(period, high);
                self.stretch_end = Some(at);
                Some(CycleChange::StretchExtended(at))
            }
            None if in_stretch && self.cycles > 0 => None,
            None => {
                self.cycles = 0;
                self.unconfirmed.clear();
                self.stretch_end = Some(at);
                Some(CycleChange::StretchStarted(at))
            }
        }
    }

    fn count(&mut self, period: Nanos, high: Nanos) {
        self.cycles += 1;
        self.unconfirmed.push((period, high));
        if self.is_confirmed() {
            for (period, high) in self.unconfirmed.drain(..) {
                self.periods.add(period);
                self.high += u128::from(high.0);
                self.total += u128::from(period.0);
            }
        }
    }
}
