//! Prices in the report: which applied, why there is none, and the range of the bill.

use phasemeter_engine::pricing::Term;
use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::Price;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;

use super::input::GpuInput;
use super::model::*;
use super::price_tag::{EarlierPrice, EstimateTag, PriceOrigin, PriceTag};
use super::value::{Usd, Utc};

impl Gpu {
    /// Whether it had no price at first.
    pub(super) const fn is_priced_in_part(&self) -> bool {
        self.price.is_some() && self.unpriced_reason.is_some()
    }
}

impl PriceTag {
    pub(super) fn of(price: &Price, first_use: Option<Timestamp>) -> Self {
        Self {
            origin: PriceOrigin::of(price, first_use.map(Date::of)),
            estimate: price.estimate.map(|estimate| EstimateTag {
                rows: estimate.rows,
                low_usd_per_gpu_hour: estimate.low,
                high_usd_per_gpu_hour: estimate.high,
                anywhere: estimate.anywhere,
            }),
        }
    }
}

/// The number of prices that ended while the GPU was metered, and the most recent of them.
pub(super) fn earlier(
    gpu: &GpuInput<'_>,
    summary: &Summary,
    wall: WallOffset,
    first_use: Option<Timestamp>,
) -> (u64, Vec<EarlierPrice>) {
    let start = summary.span.map(|(start, _)| start);
    let terms = gpu.earlier.terms.iter();
    // A price may have ended before the first reading arrived.
    let until = |term: &Term| wall.wall(term.until);
    let before = terms.clone().take_while(|term| Some(until(term)) <= start).count();
    let each: Vec<_> = terms
        .skip(before)
        .map(|term| EarlierPrice {
            until: Utc(until(term)),
            rate_usd_per_gpu_hour: term.price.rate,
            price: PriceTag::of(&term.price, first_use),
        })
        .collect();
    // Of those that are not kept, none is of a part that is reported.
    let total =
        if gpu.part.is_some() { each.len() as u64 } else { gpu.earlier.total - before as u64 };
    (total, each)
}

/// The bill at the lowest and the highest price of each GPU; `None` unless the price of one is an
/// estimate over all locations.
pub(super) fn total_range(gpus: &[Gpu]) -> Option<UsdRange> {
    let ranges: Vec<_> = gpus
        .iter()
        .filter_map(|gpu| {
            let (Usd(cost), rate) = (gpu.cost_usd?, gpu.rate_usd_per_gpu_hour?);
            let estimate = gpu.price.as_ref()?.estimate.filter(|it| it.anywhere);
            // A price that was in use for a part of the run is not known to be that of an estimate.
            let estimate = estimate.filter(|_| gpu.earlier_prices_total == 0);
            let at = |other: Rate| {
                let rates = [other, rate].map(|rate| i128::from(rate.nano_usd_per_hour()));
                cost.ratio(rates[0], rates[1]).unwrap_or(cost)
            };
            let (low, high) = estimate.map_or((cost, cost), |it| {
                (at(it.low_usd_per_gpu_hour), at(it.high_usd_per_gpu_hour))
            });
            Some((low, high, estimate.is_some()))
        })
        .collect();
    let is_estimated = ranges.iter().any(|(_, _, is_estimated)| *is_estimated);
    let low = Usd(ranges.iter().map(|(low, ..)| *low).sum());
    let high = Usd(ranges.iter().map(|(_, high, _)| *high).sum());
    is_estimated.then_some(UsdRange { low, high })
}

/// Why a GPU has no price, or had none at first.
pub(super) fn unpriced(gpu: &GpuInput<'_>, summary: &Summary, wall: WallOffset) -> Option<String> {
    let start = summary.span.map(|(start, _)| start);
    let until = gpu.unpriced_until.map(|(until, reason)| (wall.wall(*until), reason));
    match (gpu.price, until) {
        (Err(reason), _) => Some(reason.to_string()),
        (Ok(_), Some((until, reason))) if start < Some(until) => {
            Some(format!("no price before {}: {reason}", Utc(until)))
        }
        (Ok(_), _) => None,
    }
}

pub(super) fn unpriced_reason(gpus: &[Gpu]) -> Option<String> {
    let (in_part, unpriced): (Vec<_>, Vec<_>) = gpus
        .iter()
        .filter_map(|gpu| Some((gpu, gpu.unpriced_reason.as_deref()?)))
        .partition(|(gpu, _)| gpu.is_priced_in_part());
    let why = |gpus: &[(&Gpu, &str)]| {
        let mut reasons = Vec::new();
        for (_, reason) in gpus {
            if !reasons.contains(reason) {
                reasons.push(*reason);
            }
        }
        reasons.join("; ")
    };
    let why_not = why(&unpriced);
    let without = match (unpriced.len(), gpus.len()) {
        (0, _) => None,
        (1, 1) => Some(why_not),
        (some, all) if some == all => Some(format!("no GPU has a price: {why_not}")),
        (1, all) => {
            Some(format!("1 of {all} GPUs has no price and is excluded from all sums: {why_not}"))
        }
        (some, all) => Some(format!(
            "{some} of {all} GPUs have no price and are excluded from all sums: {why_not}"
        )),
    };
    let late = (!in_part.is_empty()).then(|| {
        let (some, all) = (in_part.len(), gpus.len());
        format!("the costs of {some} of {all} GPUs are incomplete: {}", why(&in_part))
    });
    let reasons: Vec<_> = without.into_iter().chain(late).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}
