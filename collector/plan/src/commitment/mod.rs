//! `commitment`: on demand, spot, reserved or owned, for given hours of use.
//!
//! A committed GPU costs its rate in every hour of the term, used or not; an hourly one costs its
//! rate in the hours that it is used.

mod coverage;
mod term;
mod usage;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::error::PlanError;
use crate::format::{gpus, grouped, number, percent, rate, usd};
use crate::profile::MeasuredUse;
use crate::worksheet::{Quantity, Worksheet};

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

    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Request { gpus: n, month_hours, .. } = self.request;
        let hours = self.hours.0 as f64 / NANOS_PER_HOUR as f64;
        if let Some(best) = self.cheapest() {
            let mix = self.coverage.as_ref().and_then(|it| it.headline(best.monthly));
            let plan = if mix.is_some() { "mixed" } else { best.plan.as_str() };
            sheet.value("cheapest_plan", "", Quantity::text(plan));
            let mut headline = vec![format!("{} used {} h per month", gpus(n), number(hours))];
            headline.push(mix.unwrap_or_else(|| {
                format!("cheapest: {}, {} per month", best.plan, usd(best.monthly))
            }));
            let is_given = self.request.hours.is_some() || !self.request.by_hour.is_empty();
            let condition = best.break_even.filter(|_| !is_given);
            headline.extend(condition.map(|at| self.usage().condition(at)));
            sheet.headline = headline;
        }
        sheet.value("gpus", "", Quantity::Count(n));
        sheet.value("hours_per_month", "", Quantity::Number(hours));
        sheet.value("month_hours", "", Quantity::Count(month_hours));
        self.write_plans(&mut sheet, hours);
        self.write_sensitivity(&mut sheet);
        if let Some(coverage) = &self.coverage {
            coverage.write(&mut sheet);
        }
        if self.request.hours.is_none() && self.request.by_hour.is_empty() {
            self.usage().write(&mut sheet, self.request.on_demand, &self.plans);
        }
        sheet.assume(match month_hours {
            720 => {
                "a month has 720 hours and a year twelve months, 8,640 hours; --month-hours 730 \
                    counts all 8,760 hours of 365 days, 1.4% more"
                    .to_owned()
            }
            hours => format!(
                "a month has {hours} hours, and a year twelve months, {} hours",
                grouped(u128::from(hours * MONTHS))
            ),
        });
        if self.plans.iter().any(|it| it.plan == PaymentPlan::Owned) {
            sheet.assume("the owned rate is already amortized; `plan own` computes it");
        }
        if self.plans.iter().any(|it| it.plan == PaymentPlan::Spot) {
            sheet.note("spot is without the work that interruptions repeat; see `plan spot`");
        }
        if let (Some(spot), None) = (self.request.spot, self.request.cheaper_spot()) {
            let (spot, on_demand) = (rate(spot), rate(self.request.on_demand));
            sheet.note(format!(
                "spot is not an option: {spot} per GPU-hour is not less than the {on_demand} on demand"
            ));
        }
        if !self.request.committed.is_empty() {
            sheet.note(
                "a commitment is paid in every hour of its term. Calculators that charge it for the \
                 hours of use only report the same saving at any use",
            );
        }
        sheet
    }

    fn write_plans(&self, sheet: &mut Worksheet, hours: f64) {
        let Request { gpus: n, month_hours, .. } = self.request;
        let columns = [
            ("plan", "plan"),
            ("rate_usd_per_gpu_hour", "GPU-hour"),
            ("monthly_usd", "month"),
            ("yearly_usd", "year"),
            ("saved_yearly_usd", "saved"),
            ("saved_fraction", ""),
            ("break_even_hours_per_month", "break-even"),
            ("term_usd", ""),
        ];
        let reference = self.plans.first().map_or(NanoUsd::ZERO, |it| it.yearly);
        let rows = self.plans.iter().map(|it| {
            let commitment = self.request.committed.iter().find(|c| c.plan == it.plan);
            let never = "it never costs less than on demand";
            let break_even = match (commitment, it.break_even) {
                (_, Some(nanos)) => Quantity::Hours(nanos.0 as f64 / NANOS_PER_HOUR as f64),
                (Some(_), None) => Quantity::Missing(never),
                (None, None) => Quantity::Missing("an hourly plan is paid for hours of use only"),
            };
            let term = commitment.filter(|it| it.plan != PaymentPlan::Owned).map(|it| {
                let hourly = it.rate.hourly().times(month_hours * MONTHS * it.years());
                Quantity::Usd((hourly + it.upfront).times(n))
            });
            vec![
                Quantity::text(it.plan.as_str()),
                Quantity::Rate(it.rate),
                Quantity::Usd(it.monthly),
                Quantity::Usd(it.yearly),
                Quantity::difference(reference, it.yearly),
                it.saved_fraction
                    .map_or(Quantity::Missing("on demand is free"), Quantity::Fraction),
                break_even,
                term.unwrap_or(Quantity::Missing("it has no term")),
            ]
        });
        let basis = match month_hours {
            720 => "month × 24 × 30, year × 24 × 30 × 12".to_owned(),
            hours => format!("month × {hours} h, year × {hours} h × 12"),
        };
        sheet.table("plans", format!("Plans: {basis}"), &columns, rows.collect());
        for it in &self.plans {
            let commitment = self.request.committed.iter().find(|c| c.plan == it.plan);
            let Some(commitment) = commitment else {
                let numbers = format!("{} h × {} × {n}", number(hours), rate(it.rate));
                let result = format!("{} per month", usd(it.monthly));
                sheet.formula(it.plan.as_str(), "hours used × price × GPUs", numbers, result);
                continue;
            };
            let every = format!("{month_hours} h × {} × {n}", rate(it.rate));
            let (symbols, numbers) = if commitment.upfront == NanoUsd::ZERO {
                ("hours of the month × price × GPUs", every)
            } else {
                let months = MONTHS * commitment.years();
                let upfront = usd(commitment.upfront);
                (
                    "hours of the month × price × GPUs + upfront × GPUs ÷ months",
                    format!("{every} + {upfront} × {n} ÷ {months}"),
                )
            };
            let result = format!("{} per month", usd(it.monthly));
            sheet.formula(it.plan.as_str(), symbols, numbers, result);
            sheet.formula(
                format!("{} saves", it.plan),
                "1 − committed ÷ on demand",
                format!("1 − {} ÷ {} per year", usd(it.yearly), usd(reference)),
                format!(
                    "{}, {} per year",
                    it.saved_fraction.map_or("unknown".to_owned(), percent),
                    Quantity::difference(reference, it.yearly)
                ),
            );
            if let Some(nanos) = it.break_even {
                let hours = nanos.0 as f64 / NANOS_PER_HOUR as f64;
                sheet.formula(
                    format!("{} breaks even", it.plan),
                    "committed cost of a month ÷ price on demand",
                    format!(
                        "{} ÷ {}",
                        usd(commitment.monthly(month_hours)),
                        rate(self.request.on_demand)
                    ),
                    format!(
                        "{} h per month, {} of it",
                        number(hours),
                        percent(hours / month_hours as f64)
                    ),
                );
            }
        }
    }

    /// The cheapest plan by hours of use.
    fn write_sensitivity(&self, sheet: &mut Worksheet) {
        if self.request.committed.is_empty() {
            return;
        }
        let columns = [
            ("used_fraction", "used"),
            ("plan", "cheapest"),
            ("monthly_usd", "month"),
            ("saved_monthly_usd", "saved"),
        ];
        let rows = (1..=TENTHS).filter_map(|tenths| {
            let costs = self.at_tenths(tenths);
            let on_demand = costs.first()?.1;
            let steady = costs.iter().filter(|(plan, _)| *plan != PaymentPlan::Spot);
            let (plan, cost) = steady.min_by_key(|(_, cost)| *cost)?;
            Some(vec![
                Quantity::Fraction(tenths as f64 / TENTHS as f64),
                Quantity::text(plan.as_str()),
                Quantity::Usd(*cost),
                Quantity::difference(on_demand, *cost),
            ])
        });
        sheet.table("sensitivity", "By use of the month", &columns, rows.collect());
    }
}
