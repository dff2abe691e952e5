//! How a GPU's utilization moves: idle, steady, bouncing or mixed.
//!
//! Found from readings, not from seconds: a job that bounces between 0 and 100 % within a second
//! has a mean of 50 % in each, and would look steady. This room must not know of money.

use crate::median::{self, DurationMedian};
use crate::units::{Nanos, PPM, Timestamp, Utilization};

/// Below this a GPU starves: 10 %.
const LOW: u32 = 100_000;

/// From this on it is fed: 70 %.
const HIGH: u32 = 700_000;

/// The longest cycle, and the longest pause between two cycles of one stretch.
const LONGEST: Nanos = Nanos::from_secs(120);

/// Fewer cycles than this are no pattern.
const CYCLES: usize = 10;

/// In less observed time than this, or in fewer readings, nothing but bouncing can be told.
const LEAST_TIME: Nanos = Nanos::from_secs(30);
const LEAST_READINGS: u64 = 10;

/// "Nearly all the time" leaves out a twentieth: of idle at the top, of steady at both ends.
const NEARLY_ALL: u32 = 95;

/// The widest band that is steady: 30 points.
const BAND: u32 = 300_000;

/// What kind of movement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// Below 10 % nearly all the time.
    Idle,
    /// Nearly all the time within a narrow band.
    Steady,
    /// At least ten cycles between below 10 and at least 70 % that follow one another.
    Bouncing,
    /// None of these.
    Mixed,
}

impl PatternKind {
    /// As it stands in reports.
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

/// The movement of a GPU over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// What kind it is.
    pub kind: PatternKind,
    /// The median time of a cycle, to the millisecond; where it bounces.
    pub period: Option<Nanos>,
    /// The share of a cycle at high utilization, in ppm; where it bounces.
    pub duty: Option<u32>,
}

impl Pattern {
    /// The pattern of a window in which no bouncing was found: so many readings over so much
    /// observed time, of these percentiles. `None` where there is too little to tell.
    #[must_use]
    pub fn calm(
        percentile: impl Fn(u32) -> Option<Utilization>,
        readings: u64,
        observed: Nanos,
    ) -> Option<Self> {
        if observed < LEAST_TIME || readings < LEAST_READINGS {
            return None;
        }
        let low = percentile(100 - NEARLY_ALL)?.ppm();
        let high = percentile(NEARLY_ALL)?.ppm();
        let kind = if high < LOW {
            PatternKind::Idle
        } else if high - low <= BAND {
            PatternKind::Steady
        } else {
            PatternKind::Mixed
        };
        Some(Self { kind, period: None, duty: None })
    }
}

/// What a reading changed for the stretch of cycles in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The stretch in progress ended before this instant, at which another may begin.
    Begins(Timestamp),
    /// The stretch in progress reaches up to this instant, at which a cycle ended.
    Reaches(Timestamp),
}

/// A cycle that may begin: utilization rose at `rise`.
#[derive(Clone, Copy, Debug)]
struct Open {
    rise: Timestamp,
    fall: Option<Timestamp>,
}

/// The cycles that were counted at an instant; by default, before everything.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    periods: median::Mark,
    high: u128,
    total: u128,
}

/// Finds the cycles between low and high, and the stretches of them, in constant memory.
#[derive(Clone, Debug, Default)]
pub struct Bounces {
    /// What was seen last.
    last: Option<Utilization>,
    /// Utilization was low last, so that the next high is a rise.
    low: bool,
    open: Option<Open>,
    /// Where the stretch in progress begins or reaches to.
    reached: Option<Timestamp>,
    /// The cycles of the stretch in progress, and the first of them until they are enough.
    cycles: usize,
    first: Vec<(Nanos, Nanos)>,
    periods: DurationMedian,
    high: u128,
    total: u128,
}

impl Bounces {
    /// Whether it is another utilization than the last.
    #[must_use]
    pub fn is_news(&self, utilization: Utilization) -> bool {
        self.last != Some(utilization)
    }

    /// Takes the utilization from `at` on in.
    pub fn observe(&mut self, at: Timestamp, utilization: Utilization) -> Option<Turn> {
        self.last = Some(utilization);
        if utilization.ppm() < LOW {
            self.low = true;
            if let Some(open) = &mut self.open {
                open.fall.get_or_insert(at);
            }
            None
        } else if utilization.ppm() >= HIGH && std::mem::take(&mut self.low) {
            let before = self.open.replace(Open { rise: at, fall: None });
            self.rise(at, before)
        } else {
            None
        }
    }

    /// Nothing is known for a while: the cycle in progress can't be told.
    pub fn interrupt(&mut self) {
        self.last = None;
        self.low = false;
        self.open = None;
    }

    /// Whether the stretch in progress has enough cycles.
    #[must_use]
    pub fn confirmed(&self) -> bool {
        self.cycles >= CYCLES
    }

    /// The bouncing since a mark of it: the median period and the duty of all its stretches; `None`
    /// where there were too few cycles.
    #[must_use]
    pub fn found_since(&self, mark: &Mark) -> Option<Pattern> {
        if self.periods.count_since(&mark.periods) < CYCLES as u64 {
            return None;
        }
        let period = self.periods.median_since(&mark.periods);
        let (high, total) = (self.high - mark.high, self.total - mark.total);
        let duty = (high * u128::from(PPM)).checked_div(total)?;
        let duty = u32::try_from(duty).unwrap_or(PPM);
        Some(Pattern { kind: PatternKind::Bouncing, period, duty: Some(duty) })
    }

    /// The cycles so far.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { periods: self.periods.mark(), high: self.high, total: self.total }
    }

    fn rise(&mut self, at: Timestamp, before: Option<Open>) -> Option<Turn> {
        let cycle = before.and_then(|open| {
            let (period, fall) = (at.since(open.rise), open.fall?);
            (period <= LONGEST).then(|| (period, fall.since(open.rise)))
        });
        let near = self.reached.is_some_and(|reached| at.since(reached) <= LONGEST);
        match cycle {
            Some((period, high)) => {
                self.count(period, high);
                self.reached = Some(at);
                Some(Turn::Reaches(at))
            }
            None if near && self.cycles > 0 => None,
            None => {
                self.cycles = 0;
                self.first.clear();
                self.reached = Some(at);
                Some(Turn::Begins(at))
            }
        }
    }

    fn count(&mut self, period: Nanos, high: Nanos) {
        self.cycles += 1;
        self.first.push((period, high));
        if self.confirmed() {
            for (period, high) in self.first.drain(..) {
                self.periods.add(period);
                self.high += u128::from(high.0);
                self.total += u128::from(period.0);
            }
        }
    }
}
