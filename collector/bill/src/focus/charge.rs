//! What a row charges: a period of a GPU, or what a holder had of it.

use phasemeter_meter::apportion::apportion;
use phasemeter_meter::money::{NANOS_PER_USD, NanoUsd};
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::allocation::Allocation;
use super::value::Decimal;
use crate::calendar::by_month;
use crate::division::{Part, parts_of};
use crate::holder::{Holder, present};
use crate::report::{Accounts, Gpu, Period, Usd};

/// What one row charges.
#[derive(Clone, Debug)]
pub(super) struct Charge<'a> {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// GPU time.
    pub(super) time: Nanos,
    /// Σ utilization × time.
    pub(super) effective: Nanos,
    pub(super) cost: NanoUsd,
    pub(super) utilized: NanoUsd,
    pub(super) unobserved: NanoUsd,
    /// By phase; `None` if it is a part of a divided GPU.
    pub(super) phases: Option<Accounts>,
    /// Whose part it is; `None` if it is all of the GPU.
    pub(super) allocation: Option<Allocation<'a>>,
}

/// The charges of a GPU that is not divided.
pub(super) fn of_periods(gpu: &Gpu) -> impl Iterator<Item = Charge<'static>> {
    let parts = |period: &Period| -> Vec<Period> {
        let parts = by_month(period.start, period.end).into_iter();
        parts.map(|(from, to)| period.part(from, to)).collect()
    };
    gpu.periods.iter().flat_map(parts).map(|period| Charge {
        start: period.start,
        end: period.end,
        time: period.length(),
        effective: period.effective_seconds.0,
        cost: period.accounts.cost_of(&Account::ALL),
        utilized: period.utilized_usd.map_or(NanoUsd::ZERO, |Usd(utilized)| utilized),
        unobserved: period.accounts.cost(Account::Unobserved),
        phases: Some(period.accounts),
        allocation: None,
    })
}

/// The charges of a divided GPU: a row per holder, and one for what nobody had; none if it was not divided.
pub(super) fn of_holders(gpu: &Gpu) -> Vec<Charge<'_>> {
    let months = |part: Part<'_>| by_month(part.from, part.to);
    let parts = parts_of(gpu).into_iter();
    let parts: Vec<Part<'_>> = parts
        .flat_map(|part| months(part).into_iter().map(move |(from, to)| part.between(from, to)))
        .collect();
    let costs: Vec<u128> = parts.iter().map(|part| part.cost.0.unsigned_abs()).collect();
    let times: Vec<u128> = parts.iter().map(|part| part.time.0.into()).collect();
    let one = u128::from(NANOS_PER_USD);
    let ratios = apportion(one, &costs).or_else(|| apportion(one, &times)).unwrap_or_default();
    // What nobody had follows from the same division.
    let of_gpu = gpu.holders.iter().find_map(method).unwrap_or("exclusive");
    let parts = parts.into_iter().zip(ratios);
    parts
        .map(|(part, ratio)| Charge {
            start: part.from,
            end: part.to,
            time: part.time,
            effective: part.effective,
            cost: part.cost,
            utilized: part.utilized,
            unobserved: part.unobserved,
            phases: None,
            allocation: Some(Allocation {
                holder: part.holder,
                method: part.holder.and_then(method).unwrap_or(of_gpu),
                ratio: Decimal(ratio.cast_signed()),
                unused: part.unused,
            }),
        })
        .collect()
}

fn method(holder: &Holder) -> Option<&str> {
    present(holder.method.as_deref())
}
