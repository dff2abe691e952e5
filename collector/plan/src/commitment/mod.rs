//! `commitment`: on demand, spot, reserved or owned, for given hours of use.
//!
//! A committed GPU costs its rate in every hour of the term, used or not; an hourly one costs its
//! rate in the hours that it is used.

mod coverage;
mod term;
mod usage;
mod worksheet;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::error::PlanError;
use crate::profile::MeasuredUse;

pub use self::coverage::Coverage;
use self::coverage::{coverage, part_of_month};
use self::term::hourly_cost;
pub use self::term::{Commitment, MONTHS, PlanCost};
use self::usage::{Usage, part};

/// Tenths of a month in the table of sensitivity.
const TENTHS: u64 = 10;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Number of GPUs.
    pub gpus: u64,
    /// Hours per month in which each is used; if `None`, as measured, else all.
    pub hours: Option<Nanos>,
    /// How much GPUs of a run were used.
    pub measured: Option<MeasuredUse>,
    /// Hours of a month: 720, or 730 for a twelfth of 365 days.
    pub month_hours: u64,
    /// Price on demand.
    pub on_demand: Rate,
    /// Price of interruptible capacity, if known.
    pub spot: Option<Rate>,
    /// Committed prices.
    pub committed: Vec<Commitment>,
    /// GPUs in use, each value for an equal part of the month. Replaces `gpus` and `hours`.
    pub by_hour: Vec<u64>,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    request: Request,
    hours: Nanos,
    /// One entry per plan; the first is on demand.
    pub plans: Vec<PlanCost>,
    /// The best mix of committed and on-demand GPUs, if use by hour was given.
    pub coverage: Option<Coverage>,
}

impl Request {
    /// Compares the plans.
    ///
    /// # Errors
    /// Returns an error if a value is out of range.
    pub fn compare(mut self) -> Result<Comparison, PlanError> {
        if self.month_hours == 0 || self.month_hours > 744 {
            let fix = "use 720 (30 days) or 730 (a twelfth of 365 days)";
            return Err(PlanError::invalid("month-hours", self.month_hours, "no such month", fix));
        }
        let month = Nanos(self.month_hours * NANOS_PER_HOUR);
        let hours = if self.by_hour.is_empty() {
            let measured = self.measured.map(|used| part(month, used.worked));
            self.hours.or(measured).unwrap_or(month)
        } else {
            let most = self.by_hour.iter().copied().max().unwrap_or_default();
            if most == 0 {
                let fix = "give the number of GPUs in use, like 2,2,8,8";
                return Err(PlanError::invalid("by-hour", 0, "no GPU is ever in use", fix));
            }
            self.gpus = most;
            let used: u128 = self.by_hour.iter().map(|&gpus| u128::from(gpus)).sum();
            let all = u128::from(most) * self.by_hour.len() as u128;
            Nanos(u64::try_from(u128::from(month.0) * used / all).unwrap_or(month.0))
        };
        if hours > month {
            let problem = format!("a month has {} hours", self.month_hours);
            let fix = "give the hours that each GPU is used";
            return Err(PlanError::invalid("hours", hours.0 / NANOS_PER_HOUR, problem, fix));
        }
        let on_demand = self.hourly(PaymentPlan::OnDemand, self.on_demand, hours, None)?;
        let mut plans = vec![on_demand];
        if let Some(spot) = self.cheaper_spot() {
            plans.push(self.hourly(PaymentPlan::Spot, spot, hours, Some(on_demand))?);
        }
        for commitment in &self.committed {
            let yearly = commitment.yearly(self.month_hours).times(self.gpus);
            plans.push(PlanCost {
                plan: commitment.plan,
                rate: commitment.rate,
                monthly: commitment.monthly(self.month_hours).times(self.gpus),
                yearly,
                saved: on_demand.yearly - yearly,
                saved_fraction: fraction(on_demand.yearly - yearly, on_demand.yearly),
                break_even: commitment.break_even(self.on_demand, self.month_hours),
            });
        }
        let coverage = coverage(
            &self.committed,
            self.on_demand,
            on_demand.monthly,
            self.month_hours,
            &self.by_hour,
        )?;
        Ok(Comparison { request: self, hours, plans, coverage })
    }

    /// The price of spot, if it is lower than on demand. List prices may not be: what is paid on demand
    /// may be a contract.
    fn cheaper_spot(&self) -> Option<Rate> {
        self.spot.filter(|spot| *spot < self.on_demand)
    }

    fn hourly(
        &self,
        plan: PaymentPlan,
        rate: Rate,
        hours: Nanos,
        on_demand: Option<PlanCost>,
    ) -> Result<PlanCost, PlanError> {
        let [monthly, yearly] = if self.by_hour.is_empty() {
            let yearly = hourly_cost(rate, hours.saturating_mul(MONTHS), self.gpus)?;
            [hourly_cost(rate, hours, self.gpus)?, yearly]
        } else {
            let used = self.by_hour.iter().fold(0_u64, |sum, gpus| sum.saturating_add(*gpus));
            let of = |hours| part_of_month(rate, hours, used, &self.by_hour);
            let year = self.month_hours * MONTHS;
            [self.month_hours, year].map(of).map(Option::unwrap_or_default)
        };
        let reference = on_demand.map_or(yearly, |it| it.yearly);
        let saved = reference - yearly;
        let saved_fraction = fraction(saved, reference);
        Ok(PlanCost { plan, rate, monthly, yearly, saved, saved_fraction, break_even: None })
    }
}

fn fraction(part: NanoUsd, whole: NanoUsd) -> Option<f64> {
    (whole > NanoUsd::ZERO).then(|| part.as_f64() / whole.as_f64())
}

impl Comparison {
    fn usage(&self) -> Usage {
        let Request { gpus, measured, month_hours, .. } = self.request;
        Usage { gpus, measured, month_hours, hours: self.hours }
    }

    /// The cheapest plan that cannot be interrupted, per month; the first of equals.
    #[must_use]
    pub fn cheapest(&self) -> Option<&PlanCost> {
        self.plans.iter().filter(|it| it.plan != PaymentPlan::Spot).min_by_key(|it| it.monthly)
    }

    /// The cost per month of each plan if GPUs are used for this many tenths of the month.
    fn at_tenths(&self, tenths: u64) -> Vec<(PaymentPlan, NanoUsd)> {
        let Request { gpus, month_hours, .. } = self.request;
        let committed = |plan: &PlanCost| {
            let it = self.request.committed.iter().find(|it| it.plan == plan.plan);
            it.map(|it| it.monthly(month_hours).times(gpus))
        };
        let cost = |plan: &PlanCost| {
            let hourly = plan.rate.hourly().times(month_hours * gpus);
            let part = hourly.ratio(i128::from(tenths), i128::from(TENTHS));
            (plan.plan, committed(plan).or(part).unwrap_or_default())
        };
        self.plans.iter().map(cost).collect()
    }
}
