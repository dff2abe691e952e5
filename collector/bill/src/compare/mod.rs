//! Two reports of the same work, before and after a change.
//!
//! Compares dollars per unit of work, time by phase, and waste. Work by hour gives an interval; a single total has none. Reports of
//! different work are not compared.

mod error;
mod interval;
pub mod json;
mod normal;
mod run;
pub mod text;

pub use self::error::CompareError;
pub use self::interval::{Change, Options};
pub use self::run::Sums;
pub(crate) use self::run::cost_share;
pub use phasemeter_savings::trial::MIN_HOURS;

use phasemeter_meter::phase::Account;

use self::interval::{Hours, Statistic};
use self::run::Run;
use crate::report::{Recommendation, Report};

/// Minimum number of whole weeks with work in each report to compare weeks in place of hours: they hold the same days,
/// and depend less on each other.
const MIN_WEEKS: usize = 6;

/// Dependence of hours on those before from which an interval is doubtful.
const STRONG_DEPENDENCE: f64 = 0.7;

/// A comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The unit of work.
    pub unit: String,
    /// Totals before and after.
    pub sums: [Sums; 2],
    /// Number of hours, or of whole weeks, with an interval; `None` without one.
    pub hours: Option<[usize; 2]>,
    /// Dollars per unit.
    pub unit_cost: Change,
    /// GPU-hours per unit.
    pub unit_time: Change,
    /// Waste as a fraction of the observed cost: a difference of fractions.
    pub waste: Change,
    /// What was promised for what was done.
    pub promise: Option<Promise>,
    /// What to know about it, one sentence each without its full stop.
    pub notes: Vec<String>,
}

/// The saving that recommendations promised, as a fraction of the bill before.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Their codes and titles.
    pub done: Vec<(String, String)>,
    /// The lowest, the expected and the highest; `None` if several were done, whose savings overlap.
    pub saving: Option<[f64; 3]>,
}

impl Comparison {
    /// Compares two reports. `done` are the codes of recommendations that were followed.
    ///
    /// # Errors
    /// Returns an error that lists all reasons if they are not comparable, or if the report before does
    /// not recommend what was done.
    pub fn of(
        names: [&str; 2],
        reports: [&Report; 2],
        options: &Options,
        done: &[String],
    ) -> Result<Self, CompareError> {
        let promise = promised(names[0], reports[0], done)?;
        let unit = run::common_unit(names, reports, options.unit.as_deref());
        let mut reasons = run::differences(reports, options.on_other_gpu);
        let unit = unit.map_err(|reason| reasons.push(reason)).unwrap_or_default();
        if !reasons.is_empty() {
            let [before, after] = names.map(str::to_owned);
            return Err(CompareError::NotComparable { before, after, reasons });
        }
        let mut runs = reports.map(|report| Run::of(report, &unit));
        let mut notes = Vec::new();
        let by_week = runs.iter().all(|run| run.has_weeks(MIN_WEEKS));
        if by_week {
            runs = runs.map(|run| run.by_week());
            notes.push(
                "whole weeks are compared, since days and nights differ; what is left of each run \
                 beyond them does not count"
                    .to_owned(),
            );
        }
        let sums = [runs[0].sums, runs[1].sums];
        let known = |run: &Run| by_week || run.hours.len() >= MIN_HOURS;
        let hours = if runs.iter().all(known) {
            Some([runs[0].hours.len(), runs[1].hours.len()])
        } else {
            notes.push(format!(
                "no interval, so a difference may be chance: that needs work by hour of at least \
                 {MIN_HOURS} hours in both reports; set --work-log"
            ));
            None
        };
        if run::rates_differ(&sums) {
            notes.push(
                "the price per GPU-hour differs, so dollars per unit change by more than GPU-hours"
                    .to_owned(),
            );
        }
        if promise.as_ref().is_some_and(|promise| promise.saving.is_none()) {
            notes.push(
                "several recommendations were followed, so the saving is of all together"
                    .to_owned(),
            );
        }
        let log_ratio = |per: fn(&Sums) -> f64| move |a: &Sums, b: &Sums| (per(b) / per(a)).ln();
        let by_hour =
            Hours { sums: &sums, hours: [&runs[0].hours, &runs[1].hours], level: options.level };
        let change = |statistic: Statistic<'_>| by_hour.change(statistic, hours.is_some());
        let unit_cost = log_ratio(Sums::unit_cost);
        if hours.is_some() && !by_week && by_hour.dependence(&unit_cost) > STRONG_DEPENDENCE {
            notes.push(
                "each hour resembles those before it, so the interval is wide: compare longer runs"
                    .to_owned(),
            );
        }
        Ok(Self {
            unit_cost: change(&unit_cost).exp(),
            unit_time: change(&log_ratio(Sums::unit_time)).exp(),
            waste: change(&|a, b| b.waste_fraction() - a.waste_fraction()),
            unit,
            sums,
            hours,
            promise,
            notes,
        })
    }

    /// The fraction of the time of an account before and after, of all time.
    #[must_use]
    pub fn shares(&self, account: Account) -> [f64; 2] {
        self.sums.map(|sums| sums.share(account))
    }
}

/// The recommendations of the report before with these codes.
fn promised(name: &str, before: &Report, done: &[String]) -> Result<Option<Promise>, CompareError> {
    let mut found: Vec<&Recommendation> = Vec::new();
    for code in done {
        let recommended = before.recommendations.iter().find(|it| it.code == *code);
        found.push(recommended.ok_or_else(|| CompareError::NotRecommended {
            before: name.to_owned(),
            code: code.clone(),
            codes: before.recommendations.iter().map(|it| it.code.clone()).collect(),
        })?);
    }
    let saving = if let [one] = found[..] {
        let share = cost_share(before, &one.gpus);
        let fraction = one.saving_fraction;
        Some([fraction.low, fraction.expected, fraction.high].map(|it| it * share))
    } else {
        None
    };
    let done = found.iter().map(|it| (it.code.clone(), it.title.clone())).collect::<Vec<_>>();
    Ok((!done.is_empty()).then_some(Promise { done, saving }))
}
