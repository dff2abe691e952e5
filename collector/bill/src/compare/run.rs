//! One report as input of a comparison: totals, and totals by hour.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use phasemeter_meter::money::{NANOS_PER_USD, NanoUsd};
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos, Timestamp};

use crate::dimension::Dimension;
use crate::report::{Gpu, Period, Report, Usd};

/// Totals as numbers: for statistics, not for bills.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Units of work.
    pub work: f64,
    /// GPU-hours.
    pub hours: f64,
    /// Σ utilization × GPU-hours.
    pub effective: f64,
    /// Dollars.
    pub cost: f64,
    /// Dollars of observed time.
    pub observed: f64,
    /// Observed dollars minus utilization × dollars.
    pub waste: f64,
    /// GPU-hours by account.
    pub accounts: [f64; Account::ALL.len()],
}

impl Sums {
    /// Dollars per unit of work.
    #[must_use]
    pub fn unit_cost(&self) -> f64 {
        self.cost / self.work
    }

    /// GPU-hours per unit of work.
    #[must_use]
    pub fn unit_time(&self) -> f64 {
        self.hours / self.work
    }

    /// Waste as a fraction of the observed cost; zero if there is none.
    #[must_use]
    pub fn waste_fraction(&self) -> f64 {
        if self.observed > 0.0 { self.waste / self.observed } else { 0.0 }
    }

    /// The fraction of the time of an account.
    #[must_use]
    pub fn share(&self, account: Account) -> f64 {
        if self.hours > 0.0 { self.accounts[account as usize] / self.hours } else { 0.0 }
    }

    /// Everything times a factor.
    pub(super) fn times(&self, factor: f64) -> Self {
        Self {
            work: self.work * factor,
            hours: self.hours * factor,
            effective: self.effective * factor,
            cost: self.cost * factor,
            observed: self.observed * factor,
            waste: self.waste * factor,
            accounts: self.accounts.map(|hours| hours * factor),
        }
    }

    fn of(period: &Period) -> Self {
        let accounts = &period.accounts;
        let observed = accounts.cost_of(&Account::OBSERVED);
        let Usd(utilized) = period.utilized_usd.unwrap_or_default();
        Self {
            work: 0.0,
            hours: hours(accounts.time_in(&Account::ALL)),
            effective: hours(period.effective_seconds.0),
            cost: dollars(accounts.cost_of(&Account::ALL)),
            observed: dollars(observed),
            waste: dollars(observed - utilized),
            accounts: Account::ALL.map(|account| hours(accounts.time(account))),
        }
    }
}

impl AddAssign<&Self> for Sums {
    fn add_assign(&mut self, other: &Self) {
        self.work += other.work;
        self.hours += other.hours;
        self.effective += other.effective;
        self.cost += other.cost;
        self.observed += other.observed;
        self.waste += other.waste;
        self.accounts.iter_mut().zip(other.accounts).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) sums: Sums,
    /// By hour, or by longer periods, in time order; empty if work by hour is unknown.
    pub(super) hours: Vec<Sums>,
    /// By whole weeks from the start, or by a few weeks if periods are so long; without the rest of the run.
    weeks: Vec<Sums>,
}

/// Time of a week.
const WEEK: Nanos = Nanos(7 * 24 * NANOS_PER_HOUR);

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    pub(super) fn of(report: &Report, unit: &str) -> Self {
        let periods = || report.gpus.iter().flat_map(|gpu| &gpu.periods);
        let longest = periods().map(Period::length).max().unwrap_or_default();
        // Periods of a long run are whole numbers of hours, and so are days.
        let length = Nanos(longest.0.max(1).div_ceil(NANOS_PER_HOUR) * NANOS_PER_HOUR);
        // Longer periods are counted from the start of the run.
        let start = periods().map(|period| period.start).min().unwrap_or(Timestamp::EPOCH);
        let start = start.floor(Nanos(NANOS_PER_HOUR));
        let place = |at: Timestamp| at.since(start).0 / length.0;
        let mut hours: BTreeMap<u64, Sums> = BTreeMap::new();
        let mut sums = Sums::default();
        for period in periods() {
            let each = Sums::of(period);
            sums += &each;
            *hours.entry(place(period.start)).or_default() += &each;
        }
        for hour in &report.work_by_hour {
            let count = hour.work.get(unit).copied().unwrap_or_default();
            hours.entry(place(hour.start)).or_default().work += count as f64;
        }
        if !hours.values().any(|hour| hour.work > 0.0) {
            hours.clear();
        }
        let end = periods().map(|period| period.end).max().unwrap_or(start);
        let weeks = weeks(&hours, length, end.since(start));
        sums.work = report.work.get(unit).map_or(0.0, |work| work.count as f64);
        Self { sums, hours: hours.into_values().collect(), weeks }
    }

    /// Whether it has so many whole weeks, all with work.
    pub(super) fn has_weeks(&self, most: usize) -> bool {
        self.weeks.len() >= most && self.weeks.iter().all(|week| week.work > 0.0)
    }

    /// The same of whole weeks alone.
    pub(super) fn by_week(&self) -> Self {
        let mut sums = Sums::default();
        self.weeks.iter().for_each(|week| sums += week);
        Self { sums, hours: self.weeks.clone(), weeks: self.weeks.clone() }
    }
}

/// The sums of whole weeks of a run of this length, of which the periods are numbered.
fn weeks(hours: &BTreeMap<u64, Sums>, length: Nanos, run: Nanos) -> Vec<Sums> {
    // The shortest time that is whole weeks and whole periods.
    let block = (1..).map(|weeks| WEEK.0.saturating_mul(weeks));
    let block = block.take_while(|block| *block <= run.0).find(|block| block % length.0 == 0);
    let Some(block) = block else { return Vec::new() };
    let mut weeks: BTreeMap<u64, Sums> = BTreeMap::new();
    for (place, hour) in hours {
        *weeks.entry(place * length.0 / block).or_default() += hour;
    }
    weeks
        .into_iter()
        .filter(|(week, _)| (week + 1) * block <= run.0)
        .map(|(_, sums)| sums)
        .collect()
}

/// The unit in which both reports have work, or why there is none.
pub(super) fn common_unit(
    names: [&str; 2],
    reports: [&Report; 2],
    given: Option<&str>,
) -> Result<String, String> {
    let units = reports.map(|report| {
        let done = report.work.iter().filter(|(_, work)| work.count > 0);
        done.map(|(unit, _)| unit.as_str()).collect::<BTreeSet<_>>()
    });
    let missing = names.iter().zip(&units).find(|(_, units)| units.is_empty());
    if let Some((name, _)) = missing {
        return Err(format!("{name} has no work; set --work or --work-log when it is written"));
    }
    let common: Vec<&str> = units[0].intersection(&units[1]).copied().collect();
    match (given, &common[..]) {
        (Some(unit), common) if common.contains(&unit) => Ok(unit.to_owned()),
        (Some(unit), _) => Err(format!("they do not both have work in {unit}")),
        (None, [unit]) => Ok((*unit).to_owned()),
        (None, []) => {
            let [before, after] =
                units.map(|units| units.into_iter().collect::<Vec<_>>().join(", "));
            Err(format!("their work is in different units ({before}, and {after})"))
        }
        (None, common) => {
            Err(format!("they have several units; set --unit to one of {}", common.join(", ")))
        }
    }
}

/// Why two reports are not of the same work, if they are not. Of a move to other GPUs, these may differ.
pub(super) fn differences(reports: [&Report; 2], on_other_gpu: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let [before, after] = reports.map(|report| report.gpus.len());
    if before != after && !on_other_gpu {
        reasons.push(format!("the number of GPUs differs ({before}, and {after})"));
    }
    let [before, after] = reports.map(models);
    if before != after && !on_other_gpu {
        let text = |models: &BTreeSet<&str>| models.iter().copied().collect::<Vec<_>>().join(", ");
        reasons.push(format!("the GPU models differ ({}, and {})", text(&before), text(&after)));
    }
    let kind = |report: &Report| {
        let gpu = report.gpus.first()?;
        Dimension::Kind.value(report, gpu, None, Timestamp::EPOCH)
    };
    let [before, after] =
        reports.map(|report| kind(report).unwrap_or_else(|| "undeclared".to_owned()));
    if before != after {
        reasons.push(format!("the kind of workload differs ({before}, and {after})"));
    }
    if reports.iter().any(|report| report.gpus.iter().any(|gpu| gpu.cost_usd.is_none())) {
        reasons
            .push("not all GPUs have a price; set --price when the report is written".to_owned());
    }
    let is_empty = |report: &&Report| report.gpus.iter().all(|gpu| gpu.periods.is_empty());
    if reports.iter().any(is_empty) {
        reasons.push("one of them has no metered time".to_owned());
    }
    let is_free = |report: &&Report| cost_of_all(report) <= 0.0;
    if reasons.is_empty() && reports.iter().any(is_free) {
        reasons.push("one of them costs nothing, so its cost per unit is zero".to_owned());
    }
    reasons
}

fn models(report: &Report) -> BTreeSet<&str> {
    report.gpus.iter().map(|gpu| gpu.model.as_deref().unwrap_or("unknown")).collect()
}

/// Whether the mean price per GPU-hour differs by more than rounding.
pub(super) fn rates_differ(sums: &[Sums; 2]) -> bool {
    let [before, after] = sums.map(|sums| sums.cost / sums.hours);
    (after / before - 1.0).abs() > 1e-6
}

/// The cost of these GPUs as a fraction of the bill.
pub(crate) fn cost_share(report: &Report, gpus: &[String]) -> f64 {
    let named = report.gpus.iter().filter(|gpu| gpus.contains(&gpu.id));
    let (named, all) = (named.map(cost).sum::<f64>(), cost_of_all(report));
    if all > 0.0 { named / all } else { 0.0 }
}

fn cost_of_all(report: &Report) -> f64 {
    report.gpus.iter().map(cost).sum()
}

fn cost(gpu: &Gpu) -> f64 {
    gpu.cost_usd.map_or(0.0, |Usd(cost)| dollars(cost))
}

#[expect(clippy::cast_precision_loss, reason = "for statistics, not for bills")]
fn dollars(amount: NanoUsd) -> f64 {
    amount.0 as f64 / NANOS_PER_USD as f64
}

fn hours(time: Nanos) -> f64 {
    time.as_secs_f64() / 3_600.0
}
