//! The facts about money: the bill and what it means, and where the rate is from.
//!
//! Sums are shown so that their parts add up. This room must not know what was measured.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::{MONTHLY_BASIS, YEARLY_BASIS};

use crate::report::{Cost, EarlierPrice, Gpu, PriceTag, Report, Usd};

use super::layout::{Page, SEPARATOR};
use super::model;
use super::words::{self, Dollars};

pub(super) fn write(page: &mut Page, report: &Report) {
    let cost = &report.cost;
    bill(page, cost);
    let mut effective = vec![format!(
        "{} of {} GPU-hours",
        words::hours(cost.effective_gpu_hours),
        words::hours(cost.gpu_hours),
    )];
    if let Some(Usd(each)) = cost.cost_per_effective_gpu_hour_usd {
        effective.push(format!("{} an effective GPU-hour", Dollars::of(each).short()));
    }
    page.fact("Effective", &effective, SEPARATOR);
    page.facts(
        "Work",
        report.work.iter().map(|(unit, work)| {
            let each = work.cost_each_usd.map(|each| format!("{} each", words::each(each)));
            let count = format!("{} {unit}", words::grouped(u128::from(work.count)));
            std::iter::once(count).chain(each).collect()
        }),
    );
    projection(page, cost);
    page.facts("Price", prices(report));
    if let Some(reason) = &cost.unpriced_reason {
        page.fact("Unpriced", std::slice::from_ref(reason), SEPARATOR);
    }
}

/// The bill as a sum, and its waste as one.
fn bill(page: &mut Page, cost: &Cost) {
    let (Some(Usd(total)), Some(Usd(effective)), Some(Usd(waste)), Some(Usd(unobserved))) =
        (cost.total_usd, cost.effective_usd, cost.waste_usd, cost.unobserved_usd)
    else {
        return;
    };
    let bill = Dollars::of(total);
    let [effective, waste, unobserved] = bill.split([effective, waste, unobserved]);
    let mut sum = vec![
        bill.to_string(),
        format!("= {effective} effective"),
        format!("+ {waste} waste ({})", waste.percent_of(bill)),
    ];
    if cost.unobserved_usd > Some(Usd(NanoUsd::ZERO)) {
        sum.push(format!("+ {unobserved} unobserved"));
    }
    page.fact("Bill", &sum, " ");
    let pools = cost.waste_pools_usd;
    let (Some(Usd(starvation)), Some(Usd(idle)), Some(Usd(occupancy))) =
        (pools.starvation, pools.idle, pools.occupancy)
    else {
        return;
    };
    let [starvation, idle, occupancy] = waste.split([starvation, idle, occupancy]);
    let sum = [
        waste.to_string(),
        format!("= {starvation} starvation"),
        format!("+ {idle} idle"),
        format!("+ {occupancy} occupancy"),
    ];
    page.fact("Waste", &sum, " ");
}

fn projection(page: &mut Page, cost: &Cost) {
    let (Some(Usd(hourly)), Some(Usd(monthly)), Some(Usd(yearly))) =
        (cost.hourly_usd, cost.monthly_usd, cost.yearly_usd)
    else {
        return;
    };
    let [hourly, monthly, yearly] = [hourly, monthly, yearly].map(|cost| Dollars::of(cost).short());
    let items = [
        format!("{hourly} an hour"),
        format!("{monthly} a month ({MONTHLY_BASIS})"),
        format!("{yearly} a year ({YEARLY_BASIS})"),
    ];
    page.fact("Projected", &items, SEPARATOR);
}

/// Each price there is, with the GPUs that have it where not all have the same, and what they cost
/// before.
fn prices(report: &Report) -> Vec<Vec<String>> {
    let mut groups: Vec<(&Gpu, Rate, &PriceTag, usize)> = Vec::new();
    for gpu in &report.gpus {
        let (Some(rate), Some(price)) = (gpu.rate_usd_per_gpu_hour, &gpu.price) else { continue };
        let same = |group: &&mut (&Gpu, Rate, &PriceTag, usize)| {
            group.0.model == gpu.model
                && (group.1, group.2) == (rate, price)
                && group.0.earlier_prices == gpu.earlier_prices
        };
        match groups.iter_mut().find(same) {
            Some((.., count)) => *count += 1,
            None => groups.push((gpu, rate, price, 1)),
        }
    }
    groups
        .into_iter()
        .flat_map(|(gpu, rate, price, count)| {
            let which = format!("{count} × {}:", model(gpu.model.as_deref()));
            let rate = format!("{} a GPU-hour", words::rate(rate));
            let all = count == report.gpus.len();
            let first = if all { rate } else { format!("{which} {rate}") };
            let now = std::iter::once(first).chain(provenance(price)).collect();
            std::iter::once(now).chain(before(gpu))
        })
        .collect()
}

/// What a GPU cost before its price changed, and when that was; of several changes, the last.
fn before(gpu: &Gpu) -> Option<Vec<String>> {
    let EarlierPrice { until, rate_usd_per_gpu_hour: rate, price } = gpu.earlier_prices.last()?;
    let first = format!("{} until {}", words::rate(*rate), words::instant(*until));
    let more = gpu.earlier_prices_total.saturating_sub(1);
    let more = (more > 0).then(|| format!("{} more before", words::grouped(more.into())));
    Some(
        [Some(first), plan(price), Some(price.source.clone()), more]
            .into_iter()
            .flatten()
            .collect(),
    )
}

fn provenance(price: &PriceTag) -> Vec<String> {
    let place = [&price.provider, &price.region, &price.instance_type];
    let place: Vec<&str> = place.into_iter().flatten().map(String::as_str).collect();
    let estimate = price.estimate.map(|estimate| {
        let (low, high) = (estimate.low_usd_per_gpu_hour, estimate.high_usd_per_gpu_hour);
        let rows = words::grouped(estimate.rows as u128);
        format!(
            "estimate: lower median of {rows} prices, {}–{}",
            words::rate(low),
            words::rate(high)
        )
    });
    let source = match &price.as_of {
        Some(day) => format!("{} of {day}", price.source),
        None => price.source.clone(),
    };
    let old = price.age_days.filter(|_| price.old);
    let old = old.map(|days| format!("old: {days} days from the first day of use"));
    let place = (!place.is_empty()).then(|| place.join(" "));
    [plan(price), place, estimate, Some(source), old].into_iter().flatten().collect()
}

fn plan(price: &PriceTag) -> Option<String> {
    price.plan.map(|plan| plan.replace('_', " "))
}
