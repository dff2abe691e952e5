//! The source of the hours of use, and what must be true for another plan to cost less.

use phasemeter_meter::money::Rate;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use super::term::{PlanCost, hourly_cost};
use crate::format::{grouped, number, usd};
use crate::profile::MeasuredUse;
use crate::worksheet::Worksheet;

/// Hours of a day.
const HOURS_PER_DAY: f64 = 24.0;

/// The use of GPUs, as measured or assumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) gpus: u64,
    /// `None` if it is assumed.
    pub(super) measured: Option<MeasuredUse>,
    pub(super) month_hours: u64,
    /// Hours per month in which each GPU is used.
    pub(super) hours: Nanos,
}

/// A part of a month, 0 to 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a month")]
pub(super) fn part(month: Nanos, share: f64) -> Nanos {
    Nanos((month.0 as f64 * share.clamp(0.0, 1.0)).round() as u64)
}

impl Usage {
    /// What must be true for the cheapest plan, a commitment that pays from these hours on.
    pub(super) fn condition(&self, from: Nanos) -> String {
        format!("if each GPU is used more than {} for its whole term", self.per_month(from))
    }

    /// Hours per month, and the same per day.
    fn per_month(&self, hours: Nanos) -> String {
        let hours = hours.0 as f64 / NANOS_PER_HOUR as f64;
        let days = self.month_hours as f64 / HOURS_PER_DAY;
        format!("{} h per month ({} h per day)", number(hours), number(hours / days))
    }

    /// Writes what the hours were taken from, and the costs if they are others. The first plan is on demand.
    pub(super) fn write(&self, sheet: &mut Worksheet, on_demand: Rate, plans: &[PlanCost]) {
        let Some(used) = self.measured else {
            sheet.assume("every GPU is used in every hour of the month; set --hours if it is not");
            return;
        };
        let (run, hours) = (grouped_hours(used.hours), self.per_month(self.hours));
        sheet.assume(if used.has_day() {
            format!("every month is used as the {run} of the report: {hours}")
        } else {
            format!(
                "every month is used as the {run} of the report, less than a day: {hours}. Give the report of \
                 a week, or --hours"
            )
        });
        let month = Nanos(self.month_hours * NANOS_PER_HOUR);
        let held = part(month, used.held);
        let cost = |hours| usd(hourly_cost(on_demand, hours, self.gpus).unwrap_or_default());
        if self.hours < month {
            sheet.assume(format!(
                "on demand is paid only in hours of use, so instances stop in all others. If they never stop, \
                 it costs {} per month, not {}",
                cost(month),
                cost(self.hours)
            ));
        }
        if self.hours < held {
            sheet.note(format!(
                "processes hold GPUs for {}, with or without work. If instances run as long, on demand costs \
                 {} per month",
                self.per_month(held),
                cost(held)
            ));
        }
        for (plan, at) in plans.iter().filter_map(|it| Some((it.plan, it.break_even?))) {
            if at > self.hours {
                sheet.note(format!(
                    "{plan} costs less than on demand if each GPU is used more than {}, or if instances never stop",
                    self.per_month(at)
                ));
            }
        }
    }
}

/// `1 hour`, `48 hours`.
fn grouped_hours(hours: u64) -> String {
    if hours == 1 { "1 hour".to_owned() } else { format!("{} hours", grouped(hours.into())) }
}
