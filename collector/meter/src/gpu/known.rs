//! What is known of a GPU: of all its run, and lately.
//!
//! All sums of a meter only grow. Where sessions end they are marked, and what came since a mark is
//! a difference: so the accounts of the last day's hours cost nothing while they are made. This room
//! must not know who looks at them.

use std::collections::VecDeque;

use super::GpuMeter;
use crate::config::MeterConfig;
use crate::distribution::{self, Readings};
use crate::energy::EnergyBasis;
use crate::ledger::Accounts;
use crate::pattern::{self, Pattern, Turn};
use crate::pool::{Pools, Stretches};
use crate::reading::Basis;
use crate::series::{Quantity, Series};
use crate::summary::Summary;
use crate::tariff::Tariff;
use crate::units::{Nanos, Timestamp};

/// What is known of one GPU since an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// From where to where all is settled; `None` where nothing is.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Time and money by account.
    pub accounts: Accounts,
    /// Waste by pool.
    pub pools: Pools,
    /// How utilization moves; `None` where there is too little to tell.
    pub pattern: Option<Pattern>,
    /// Joules, and what they were found from.
    pub energy: Option<(f64, EnergyBasis)>,
    readings: Vec<(Basis, Readings)>,
}

impl Recent {
    /// The mean of what this measure read, 0–1; `None` where it read nothing.
    #[must_use]
    pub fn mean_reading(&self, of: Basis) -> Option<f64> {
        self.readings.iter().find(|(basis, _)| *basis == of)?.1.mean()
    }
}

/// What is kept of the last day.
#[derive(Clone, Debug)]
pub(super) struct Day {
    /// Utilization, power and memory.
    pub(super) series: Series,
    /// The ends of its sessions, rising.
    marks: VecDeque<Mark>,
}

/// All sums at an instant; by default, before everything.
#[derive(Clone, Debug, Default)]
struct Mark {
    at: Timestamp,
    accounts: Accounts,
    stretches: Stretches,
    cycles: pattern::Mark,
    /// Of the measure that the bill was made from.
    billed: Option<(Basis, distribution::Mark)>,
    readings: Vec<(Basis, Readings)>,
    energy: Option<(f64, EnergyBasis)>,
}

impl Day {
    pub(super) fn new(config: &MeterConfig, start: Timestamp) -> Self {
        let keep = config.window + config.session_every;
        Self { series: Series::of_last(keep, start), marks: VecDeque::new() }
    }

    /// Waste before a mark may turn out later to lie in a bouncing stretch.
    pub(super) fn turn(&mut self, turn: Turn, confirmed: bool) {
        self.marks.iter_mut().for_each(|mark| mark.stretches.turn(turn, confirmed));
    }
}

impl GpuMeter {
    /// What is known so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let Recent { span, accounts, pools, pattern, energy, .. } = self.all();
        let billed = self.billed();
        Summary {
            span,
            rate: self.books.tariff.as_ref().map(Tariff::rate),
            accounts,
            holding_known: self.timeline.holding_known(),
            unobserved: self.unobserved,
            pools,
            pattern,
            basis: billed.basis(),
            update_period: billed.update_period(),
            utilization_p50: billed.distribution().percentile(50),
            utilization_p95: billed.distribution().percentile(95),
            memory_peak: self.memory.peak(),
            memory_p95: self.memory.percentile(95),
            energy,
        }
    }

    /// What is recent at `end`: where sessions end, from the first end of one that is; else all.
    #[must_use]
    pub fn recent(&self, end: Timestamp) -> Recent {
        let from = self.config.recent_from(end);
        match &self.day {
            Some(day) if self.start.is_some_and(|start| start < from) => {
                match day.marks.iter().find(|mark| from <= mark.at) {
                    Some(mark) => self.since(mark),
                    // Nothing was heard of it since.
                    None => Recent { span: None, ..self.since(&self.now()) },
                }
            }
            _ => self.all(),
        }
    }

    /// Utilization, power and memory over at least what [`GpuMeter::recent`] tells of.
    #[must_use]
    pub fn recent_series(&self) -> &Series {
        self.day.as_ref().map_or(&self.series, |day| &day.series)
    }

    /// All that is known.
    fn all(&self) -> Recent {
        self.since(&Mark::default())
    }

    /// A session is over.
    pub(super) fn mark(&mut self) {
        let (from, mark) = (self.told.saturating_sub(self.config.window), self.now());
        if let Some(day) = &mut self.day {
            day.marks.retain(|mark| from <= mark.at);
            day.marks.push_back(mark);
        }
    }

    fn now(&self) -> Mark {
        let billed = self.billed();
        Mark {
            at: self.told,
            accounts: self.books.accounts,
            stretches: self.books.stretches.clone(),
            cycles: self.bounces.mark(),
            billed: Some((billed.basis(), billed.distribution().mark())),
            readings: self.readings().collect(),
            energy: self.joules(),
        }
    }

    fn since(&self, mark: &Mark) -> Recent {
        let accounts = self.books.accounts.since(&mark.accounts);
        let stretches = &self.books.stretches;
        let pools = stretches.pools_since(&mark.stretches, &accounts, self.bounces.confirmed());
        let before = |of: Basis| mark.readings.iter().find(|(basis, _)| *basis == of);
        let before = |of: Basis| before(of).map(|(_, readings)| *readings).unwrap_or_default();
        let readings = self.readings().map(|(basis, all)| (basis, all.since(before(basis))));
        Recent {
            span: self.start.map(|start| (start.max(mark.at), self.told)),
            accounts,
            pools,
            pattern: self.pattern(mark, before(self.billed().basis()), accounts.observed().time),
            energy: match (self.joules(), mark.energy) {
                (Some((now, basis)), Some((then, same))) if basis == same => {
                    Some((now - then, basis))
                }
                (now, _) => now,
            },
            readings: readings.collect(),
        }
    }

    fn pattern(&self, mark: &Mark, before: Readings, observed: Nanos) -> Option<Pattern> {
        let billed = self.billed();
        let beginning = distribution::Mark::default();
        let marked = mark.billed.as_ref().filter(|(basis, _)| *basis == billed.basis());
        let marked = marked.map_or(&beginning, |(_, marked)| marked);
        let all = billed.distribution();
        let readings = all.all_readings().since(before).count;
        let percentile = |percent| all.percentile_since(marked, percent);
        let calm = || Pattern::calm(percentile, readings, observed);
        self.bounces.found_since(&mark.cycles).or_else(calm)
    }

    fn readings(&self) -> impl Iterator<Item = (Basis, Readings)> {
        self.measures().map(|measure| (measure.basis(), measure.distribution().all_readings()))
    }

    fn joules(&self) -> Option<(f64, EnergyBasis)> {
        self.energy.joules(self.series.sum(Quantity::Power))
    }
}
