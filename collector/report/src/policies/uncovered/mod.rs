//! Waste that no recommendation is about: a large one is never silent.

mod decisive;
mod left;
mod outcomes;

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::waste::WasteCategory;
use serde::Serialize;

use self::left::Left;
use super::{MeteredGpu, Need, Recommendation, Stake};
use crate::value::Usd;

/// Share of all bills from which waste is reported: 1 in 20.
const REPORTED_FROM: i128 = 20;

/// Waste of one category that recommendations do not cover: of GPUs with a price, or without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UncoveredWaste {
    /// The category.
    pub category: &'static str,
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Waste in dollars: more than 5% of the bill of all GPUs. `None` for GPUs without a price.
    pub usd: Option<Usd>,
    /// The same, of the bill of all GPUs; or of the time of those without a price.
    pub fraction: f64,
    /// GPU-hours that cost as much at the mean rate of each GPU.
    pub gpu_hours: f64,
    /// Whether this is what recommendations leave of the waste of these GPUs, at most.
    pub is_rest: bool,
    /// Codes of the risks that come first: of these GPUs, or of others on their nodes.
    pub risks: Vec<String>,
    /// What is missing to recommend something for them. Empty if most of the waste is of GPUs at risk.
    pub missing: Vec<String>,
    /// What follows from each of them: conditions, and what to do then.
    pub outcomes: Vec<&'static str>,
}

impl UncoveredWaste {
    const fn stake(&self) -> Stake {
        Stake { usd: self.usd, gpu_hours: self.gpu_hours }
    }

    /// Whether both are waste of the same GPUs, for which the same is to be done.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let step = |it: &Self| (it.is_rest, it.usd.is_some());
        (&self.gpus, &self.risks, &self.missing, step(self))
            == (&other.gpus, &other.risks, &other.missing, step(other))
    }
}

/// All waste in dollars: the four sum to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WasteCoverage {
    /// What recommendations are about that need no trial: they are proved, free capacity, or find out what to change.
    pub advised_usd: Usd,
    /// What only trials are about that were not settled.
    pub trial_usd: Usd,
    /// What no recommendation is about, of the categories that are reported as uncovered.
    pub uncovered_usd: Usd,
    /// The rest, of categories in which no more than 5% of the bill is left.
    pub minor_usd: Usd,
}

/// At most one entry per category for GPUs with a price, and for those without, the largest first; and what became of
/// all waste, if a GPU has a price. `run` are the attributes of the run.
pub(super) fn uncovered(
    run: &BTreeMap<String, String>,
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> (Vec<UncoveredWaste>, Option<WasteCoverage>) {
    let (mut advised, mut on_trial) = (NanoUsd::ZERO, NanoUsd::ZERO);
    let (priced, unpriced): (Vec<_>, Vec<_>) =
        gpus.iter().copied().partition(|(gpu, _)| gpu.price.is_ok());
    let mut of_category = |category| {
        [&priced, &unpriced].map(|some| {
            let lefts = some.iter().map(|gpu| Left::of(category, *gpu, recommendations));
            let lefts: Vec<_> = lefts.collect();
            for it in lefts.iter().filter(|it| it.gpu.price.is_ok()) {
                advised += NanoUsd(it.advised);
                on_trial += NanoUsd(it.on_trial());
            }
            let named: Vec<_> = lefts.iter().filter(|left| left.is_named()).collect();
            let decide = || decisive::decisive(category, run, gpus, &named, recommendations, needs);
            of(category, &lefts, &named, decide)
        })
    };
    let each = WasteCategory::ALL.map(&mut of_category).into_iter();
    let mut all: Vec<UncoveredWaste> = each.flatten().flatten().collect();
    all.sort_by(|a, b| a.stake().order(&b.stake()));
    let waste: NanoUsd = gpus.iter().map(|(_, summary)| summary.waste.sum()).sum();
    let uncovered: NanoUsd = all.iter().filter_map(|it| it.usd).map(|Usd(usd)| usd).sum();
    let coverage = WasteCoverage {
        advised_usd: Usd(advised),
        trial_usd: Usd(on_trial),
        uncovered_usd: Usd(uncovered),
        minor_usd: Usd(waste - advised - on_trial - uncovered),
    };
    (all, (!priced.is_empty()).then_some(coverage))
}

/// The waste of these GPUs, all with a price or all without, of which some are named. `decide` returns the risks that
/// come first, and what is missing.
fn of(
    category: WasteCategory,
    lefts: &[Left<'_>],
    named: &[&Left<'_>],
    decide: impl FnOnce() -> (Vec<String>, Vec<String>),
) -> Option<UncoveredWaste> {
    let bill: i128 = lefts.iter().map(|left| left.bill).sum();
    let waste: i128 = lefts.iter().map(|left| left.waste).sum();
    if waste * REPORTED_FROM <= bill {
        return None;
    }
    let is_priced = lefts.iter().all(|left| left.gpu.price.is_ok());
    let (risks, missing) = decide();
    Some(UncoveredWaste {
        category: category.name(),
        usd: is_priced.then_some(Usd(NanoUsd(waste))),
        fraction: waste as f64 / bill as f64,
        gpu_hours: lefts.iter().map(Left::hours).sum(),
        is_rest: named.iter().any(|left| left.is_rest()),
        risks,
        outcomes: outcomes::outcomes(&missing),
        missing,
        gpus: named.iter().map(|left| left.id().to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests;
