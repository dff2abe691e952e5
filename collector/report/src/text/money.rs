//! Facts about cost: the bill, its projection and the provenance of prices.
//!
//! Displayed parts sum to the displayed total.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::{MONTHLY_BASIS, YEARLY_BASIS};
use phasemeter_terminal::page::{Page, SEPARATOR};
use phasemeter_terminal::{money, number};

use crate::model::{Cost, Gpu, Report, UsdRange};
use crate::price_tag::{EarlierPrice, EstimateTag, PriceTag};
use crate::value::Usd;

use super::amounts::Bill;
use super::format::{self, Dollars};
use super::{model, work_groups};

pub(super) fn write(page: &mut Page, report: &Report, parts: Option<&Bill>) {
    let cost = &report.cost;
    if let Some(parts) = parts {
        bill(page, cost, parts);
    }
    let mut effective = vec![format!(
        "{} of {} GPU-hours",
        format::hours(cost.effective_gpu_hours),
        format::hours(cost.gpu_hours),
    )];
    if let Some(Usd(each)) = cost.cost_per_effective_gpu_hour_usd {
        effective.push(format!("{} per effective GPU-hour", Dollars::of(each).short()));
    }
    page.fact("Effective", &effective, SEPARATOR);
    page.facts(
        "Work",
        report.work.iter().map(|(unit, work)| {
            let each = work.cost_each_usd.map(|each| format!("{} each", format::each(each)));
            let count = format!("{} {unit}", number::grouped(u128::from(work.count)));
            std::iter::once(count).chain(each).collect()
        }),
    );
    work_groups::write(page, report, parts);
    projection(page, cost);
    page.facts("Price", prices(report));
    if let Some(reason) = &cost.unpriced_reason {
        page.sentences("Unpriced", [reason]);
    }
}

/// The bill and its waste, each as a sum.
fn bill(page: &mut Page, cost: &Cost, bill: &Bill) {
    let Bill { total, utilized, waste, unobserved, .. } = bill;
    let all = match cost.total_range_usd {
        Some(UsdRange { low: Usd(low), high: Usd(high) }) => {
            let [low, high] = [low, high].map(|bound| Dollars::of(bound).to_string());
            format!("{low}–{high}, estimated {total}")
        }
        None => total.to_string(),
    };
    let mut sum = vec![
        all,
        format!("= {utilized} utilized"),
        format!("+ {waste} waste ({})", waste.percent_of(*total)),
    ];
    if cost.unobserved_usd > Some(Usd(NanoUsd::ZERO)) {
        sum.push(format!("+ {unobserved} unobserved"));
    }
    page.fact("Bill", &sum, " ");
    let Bill { starvation, idle_waste, underload, .. } = bill;
    let sum = [
        waste.to_string(),
        format!("= {starvation} starvation"),
        format!("+ {idle_waste} {}", format::waste_name("idle")),
        format!("+ {underload} underload"),
    ];
    page.fact("Waste", &sum, " ");
    if let Some([advised, on_trial, uncovered, minor]) = bill.coverage
        && waste.exact() > NanoUsd::ZERO
    {
        let parts = [
            (advised, "advised"),
            (on_trial, "on trial"),
            (uncovered, "uncovered"),
            (minor, "in small parts"),
        ];
        let parts = parts.iter().filter(|(part, _)| part.exact() > NanoUsd::ZERO).enumerate();
        let sign = |index| if index == 0 { '=' } else { '+' };
        let sum: Vec<_> =
            parts.map(|(index, (part, name))| format!("{} {part} {name}", sign(index))).collect();
        page.fact("", &sum, " ");
    }
}

fn projection(page: &mut Page, cost: &Cost) {
    let (Some(Usd(hourly)), Some(Usd(monthly)), Some(Usd(yearly))) =
        (cost.hourly_usd, cost.monthly_usd, cost.yearly_usd)
    else {
        return;
    };
    let [hourly, monthly, yearly] = [hourly, monthly, yearly].map(|cost| Dollars::of(cost).short());
    let estimated = if cost.total_range_usd.is_some() { "estimated " } else { "" };
    let items = [
        format!("{estimated}{hourly} per hour"),
        format!("{monthly} per month ({MONTHLY_BASIS})"),
        format!("{yearly} per year ({YEARLY_BASIS})"),
    ];
    page.fact("Projected", &items, SEPARATOR);
}

/// Each distinct price, with its GPUs unless it is the price of all, and the price before it. The source that
/// successive prices have in common is beside the last of them.
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
    let next = groups.iter().skip(1).map(|(_, _, price, _)| Some(*price)).chain([None]);
    let next: Vec<_> = next.collect();
    groups
        .into_iter()
        .zip(next)
        .flat_map(|((gpu, rate, price, count), next)| {
            let which = format!("{count} × {}:", model(gpu.model.as_deref()));
            let rate = match price.estimate.filter(|it| it.anywhere) {
                Some(range) => {
                    format!("{}, estimated {}", span(&range), format::estimated_rate(rate))
                }
                None => money::rate(rate),
            };
            let rate = format!("{rate} per GPU-hour");
            let all = count == report.gpus.len();
            let first = if all { rate } else { format!("{which} {rate}") };
            let next = next.filter(|_| gpu.earlier_prices.is_empty());
            let now = std::iter::once(first).chain(provenance(price, next)).collect();
            std::iter::once(now).chain(before(gpu))
        })
        .collect()
}

/// The most recent earlier price of a GPU, and when it ended.
fn before(gpu: &Gpu) -> Option<Vec<String>> {
    let EarlierPrice { until, rate_usd_per_gpu_hour: rate, price } = gpu.earlier_prices.last()?;
    let first = format!("{} until {}", money::rate(*rate), format::instant(*until));
    let more = gpu.earlier_prices_total.saturating_sub(1);
    let more = (more > 0).then(|| format!("{} earlier", number::grouped(more.into())));
    Some(
        [Some(first), plan(price), Some(price.origin.source.clone()), more]
            .into_iter()
            .flatten()
            .collect(),
    )
}

/// Plan, place, estimate and source of a price. `next`: the price below it, whose source is not repeated here.
fn provenance(price: &PriceTag, next: Option<&PriceTag>) -> Vec<String> {
    let estimate = price.estimate.map(|estimate| {
        let rows = number::grouped(estimate.rows as u128);
        match estimate.anywhere {
            _ if estimate.rows == 1 => "estimate: the only price that matches".to_owned(),
            true => format!("lower median of {rows} prices; narrow it with --provider"),
            false => format!("estimate: lower median of {rows} prices, {}", span(&estimate)),
        }
    });
    let source = source(price);
    let source = if next.map(self::source).as_ref() == Some(&source) { Vec::new() } else { source };
    let items = [plan(price), price.origin.location(), estimate];
    items.into_iter().flatten().chain(source).collect()
}

/// The source of a price, and how old it is if that is long.
fn source(PriceTag { origin, .. }: &PriceTag) -> Vec<String> {
    let source = match &origin.as_of {
        Some(day) => format!("{}, {day}", origin.source),
        None => origin.source.clone(),
    };
    let stale = origin.age_days.filter(|_| origin.stale);
    let stale = stale.map(|days| format!("stale: {days} days from the first day of use"));
    std::iter::once(source).chain(stale).collect()
}

/// The lowest and the highest price of an estimate.
fn span(estimate: &EstimateTag) -> String {
    let (low, high) = (estimate.low_usd_per_gpu_hour, estimate.high_usd_per_gpu_hour);
    format!("{}–{}", format::estimated_rate(low), format::estimated_rate(high))
}

fn plan(price: &PriceTag) -> Option<String> {
    price.origin.plan.map(|plan| plan.replace('_', " "))
}
