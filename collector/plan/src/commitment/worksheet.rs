//! The worked result of a comparison of plans.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::NANOS_PER_HOUR;

use super::{Comparison, MONTHS, Request, TENTHS};
use crate::format::{gpus, grouped, number, percent, rate, usd};
use crate::worksheet::{Amount, Worksheet};

impl Comparison {
    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Request { gpus: n, month_hours, .. } = self.request;
        let hours = self.hours.0 as f64 / NANOS_PER_HOUR as f64;
        if let Some(best) = self.cheapest() {
            let mix = self.coverage.as_ref().and_then(|it| it.headline(best.monthly));
            let plan = if mix.is_some() { "mixed" } else { best.plan.as_str() };
            sheet.value("cheapest_plan", "", Amount::text(plan));
            let mut headline = vec![format!("{} used {} h per month", gpus(n), number(hours))];
            headline.push(mix.unwrap_or_else(|| {
                format!("cheapest: {}, {} per month", best.plan, usd(best.monthly))
            }));
            let is_given = self.request.hours.is_some() || !self.request.by_hour.is_empty();
            let condition = best.break_even.filter(|_| !is_given);
            headline.extend(condition.map(|at| self.usage().condition(at)));
            sheet.headline = headline;
        }
        sheet.value("gpus", "", Amount::Count(n));
        sheet.value("hours_per_month", "", Amount::Number(hours));
        sheet.value("month_hours", "", Amount::Count(month_hours));
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
                (_, Some(nanos)) => Amount::Hours(nanos.0 as f64 / NANOS_PER_HOUR as f64),
                (Some(_), None) => Amount::Missing(never),
                (None, None) => Amount::Missing("an hourly plan is paid for hours of use only"),
            };
            let term = commitment.filter(|it| it.plan != PaymentPlan::Owned).map(|it| {
                let hourly = it.rate.hourly().times(month_hours * MONTHS * it.years());
                Amount::Usd((hourly + it.upfront).times(n))
            });
            vec![
                Amount::text(it.plan.as_str()),
                Amount::Rate(it.rate),
                Amount::Usd(it.monthly),
                Amount::Usd(it.yearly),
                Amount::difference(reference, it.yearly),
                it.saved_fraction.map_or(Amount::Missing("on demand is free"), Amount::Fraction),
                break_even,
                term.unwrap_or(Amount::Missing("it has no term")),
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
                    Amount::difference(reference, it.yearly)
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
                Amount::Fraction(tenths as f64 / TENTHS as f64),
                Amount::text(plan.as_str()),
                Amount::Usd(*cost),
                Amount::difference(on_demand, *cost),
            ])
        });
        sheet.table("sensitivity", "By use of the month", &columns, rows.collect());
    }
}
