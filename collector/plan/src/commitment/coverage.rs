//! Mixed coverage: commit to the GPUs that are used most, and rent the others by the hour.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::PaymentPlan;

use crate::error::PlanError;
use crate::format::{gpus, usd};
use crate::worksheet::{Amount, Worksheet};

use super::term::Commitment;

/// The largest fleet whose coverage is computed.
const MAX_GPUS: u64 = 100_000;

/// The best number of committed GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The committed plan.
    pub plan: PaymentPlan,
    /// GPUs to commit to.
    pub base: u64,
    /// The most GPUs in use at once.
    pub most: u64,
    /// Cost per month: base committed, the rest on demand.
    pub monthly: NanoUsd,
    /// Cost per month with all on demand.
    pub on_demand: NanoUsd,
    /// Cost per month with `most` committed.
    pub all_committed: NanoUsd,
}

/// The best coverage over all committed plans, beside the cost per month with all on demand; `None` without
/// use by hour or commitments.
///
/// # Errors
/// Returns an error if the fleet is too large.
pub(crate) fn coverage(
    committed: &[Commitment],
    rate: Rate,
    on_demand: NanoUsd,
    month_hours: u64,
    by_hour: &[u64],
) -> Result<Option<Coverage>, PlanError> {
    let Some(most) = by_hour.iter().copied().max() else { return Ok(None) };
    if most > MAX_GPUS {
        let fix = format!("give at most {MAX_GPUS}");
        return Err(PlanError::invalid("by-hour", most, "too many GPUs", fix));
    }
    let best = |it: &Commitment| best(it, rate, on_demand, month_hours, by_hour, most);
    Ok(committed.iter().filter_map(best).min_by_key(|it| it.monthly))
}

/// The best base of one plan. GPU k is in use in all hours in which at least k are, so the cost is a
/// sum over GPUs, and each is committed if that costs less.
fn best(
    commitment: &Commitment,
    rate: Rate,
    on_demand: NanoUsd,
    month_hours: u64,
    by_hour: &[u64],
    most: u64,
) -> Option<Coverage> {
    let committed = commitment.monthly(month_hours);
    let rented = |used: u64| part_of_month(rate, month_hours, used, by_hour);
    let costs_more = |gpu: u64| {
        let used = by_hour.iter().filter(|&&in_use| in_use >= gpu).count();
        Some(committed < rented(used as u64)?)
    };
    let base = (1..=most).take_while(|gpu| costs_more(*gpu) == Some(true)).count() as u64;
    let rest = by_hour.iter().map(|in_use| in_use.saturating_sub(base)).sum();
    Some(Coverage {
        plan: commitment.plan,
        base,
        most,
        monthly: committed.times(base) + rented(rest)?,
        on_demand,
        all_committed: committed.times(most),
    })
}

/// The cost per month of GPUs that are used for so many of these parts of a month, all together.
pub(super) fn part_of_month(
    rate: Rate,
    month_hours: u64,
    used: u64,
    by_hour: &[u64],
) -> Option<NanoUsd> {
    let parts = i128::try_from(by_hour.len()).ok()?;
    rate.hourly().times(month_hours).ratio(used.into(), parts)
}

impl Coverage {
    /// The headline, if a mix costs less than `cheapest`, the cheapest plan for all.
    pub(crate) fn headline(&self, cheapest: NanoUsd) -> Option<String> {
        let Self { plan, base, monthly, .. } = *self;
        let mix = format!("commit to {} with {plan}, rent the rest", gpus(base));
        (monthly < cheapest).then(|| format!("{mix}: {} per month", usd(monthly)))
    }

    pub(crate) fn write(&self, sheet: &mut Worksheet) {
        let Self { plan, base, most, monthly, on_demand, all_committed } = *self;
        let columns = [("mix", "mix"), ("committed_gpus", "committed"), ("monthly_usd", "month")];
        let row = |name: &str, committed, cost| {
            vec![Amount::text(name), Amount::Count(committed), Amount::Usd(cost)]
        };
        let rows = vec![
            row("all on demand", 0, on_demand),
            row(&format!("base {plan}"), base, monthly),
            row(&format!("all {plan}"), most, all_committed),
        ];
        sheet.table("coverage", "Mixed coverage", &columns, rows);
        sheet.formula(
            "base",
            "the GPUs that are used for more hours than the break-even",
            format!("{base} of {most}"),
            format!("{} per month", usd(monthly)),
        );
    }
}
