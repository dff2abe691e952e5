//! Waste that no recommendation is about: a large one is never silent.

mod decisive;
mod left;

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::waste::WasteCategory;
use serde::Serialize;

use self::left::Left;
use super::{Need, Recommendation};
use crate::input::GpuInput;
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
}

type MeteredGpu<'a> = (&'a GpuInput<'a>, &'a Summary);

/// At most one entry per category for GPUs with a price, and for those without. `run` are the attributes of the run.
pub(super) fn uncovered(
    run: &BTreeMap<String, String>,
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let (priced, unpriced): (Vec<_>, Vec<_>) =
        gpus.iter().copied().partition(|(gpu, _)| gpu.price.is_ok());
    let of_category = |category| {
        [&priced, &unpriced].map(|some| {
            let lefts = some.iter().map(|gpu| Left::of(category, *gpu, recommendations));
            let lefts: Vec<_> = lefts.collect();
            let named: Vec<_> = lefts.iter().filter(|left| left.is_named()).collect();
            let decide = || decisive::decisive(category, run, gpus, &named, recommendations, needs);
            of(category, &lefts, &named, decide)
        })
    };
    WasteCategory::ALL.into_iter().flat_map(of_category).flatten().collect()
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
        missing,
        gpus: named.iter().map(|left| left.id().to_owned()).collect(),
    })
}

#[cfg(test)]
mod tests;
