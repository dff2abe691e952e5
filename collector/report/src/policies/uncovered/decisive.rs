//! What would settle waste that has no recommendation: a risk that comes first, what policies need, else what
//! usually shows the cause.

use std::collections::BTreeMap;

use phasemeter_meter::phase::{Account, Phase};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_rules::recommendation::RecommendationKind;
use phasemeter_rules::workload::{Evidence, Workload};

use super::left::Left;
use crate::policies::{MeteredGpu, Need, Recommendation};

/// Mean utilization while it works from which a GPU is full, in ppm: what is left of its time is between kernels. An assumption.
const FULL_FROM_PPM: u128 = 900_000;

/// Mean utilization of idle time from which it is little work, in ppm: drivers report a percent or two while a process
/// waits. An assumption.
const WORKS_FROM_PPM: u128 = 30_000;

/// The codes of the risks that come first, and what is missing: nothing if most of the waste is of GPUs at risk. GPUs
/// of `all` on their nodes, whose risks come before what usually shows a cause, may be of the same job.
pub(super) fn decisive(
    category: WasteCategory,
    run: &BTreeMap<String, String>,
    all: &[MeteredGpu<'_>],
    lefts: &[&Left<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> (Vec<String>, Vec<String>) {
    let risks: Vec<_> =
        recommendations.iter().filter(|it| it.kind == RecommendationKind::Risk).collect();
    let codes = |is_theirs: &dyn Fn(&[String]) -> bool| {
        unique(risks.iter().filter(|it| is_theirs(&it.gpus)).map(|it| it.code.clone()))
    };
    let own = codes(&|gpus: &[String]| lefts.iter().any(|left| has(gpus, left)));
    if !own.is_empty() && is_most(lefts, |left| risks.iter().any(|it| has(&it.gpus, left))) {
        return (own, Vec::new());
    }
    let category = match category {
        // A load about the threshold is in both categories, and of one cause.
        WasteCategory::Idle if is_most(lefts, works_while_idle) => WasteCategory::Underload,
        category => category,
    };
    let with_work = category == WasteCategory::Underload;
    let explains = |need: &&Need| {
        need.explains_waste(with_work) && is_most(lefts, |left| has(&need.gpus, left))
    };
    let missing = unique(needs.iter().filter(explains).map(|need| need.missing.clone()));
    if !missing.is_empty() || !own.is_empty() {
        return (own, missing);
    }
    let is_near = |gpus: &[String]| {
        let named = all.iter().filter(|(gpu, _)| gpus.contains(&gpu.identity.name));
        let mut nodes = named.map(|(gpu, _)| gpu.identity.node());
        nodes.any(|node| lefts.iter().any(|left| left.gpu.identity.node() == node))
    };
    match codes(&is_near) {
        near if near.is_empty() => (near, vec![usual(category, run, lefts).to_owned()]),
        near => (near, Vec::new()),
    }
}

/// Whether GPUs for which this holds have half of the waste or more.
fn is_most(lefts: &[&Left<'_>], holds: impl Fn(&Left<'_>) -> bool) -> bool {
    let all: i128 = lefts.iter().map(|left| left.waste).sum();
    let some: i128 = lefts.iter().filter(|left| holds(left)).map(|left| left.waste).sum();
    some * 2 >= all
}

fn has(gpus: &[String], left: &Left<'_>) -> bool {
    gpus.iter().any(|gpu| gpu == left.id())
}

/// Each once, in the order of the first.
fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    names.fold(Vec::new(), |mut all, name| {
        if !all.contains(&name) {
            all.push(name);
        }
        all
    })
}

/// What usually shows the cause, if no policy needs anything for most of the waste.
fn usual(
    category: WasteCategory,
    run: &BTreeMap<String, String>,
    lefts: &[&Left<'_>],
) -> &'static str {
    // Requests that were counted make no work a session.
    let kind = |left: &Left<'_>| {
        let gpu = &left.gpu.identity.attributes;
        Workload::of(&Evidence { gpu, run, processes: Workload::Unknown, requests: false })
    };
    let is_most_of = |workload| is_most(lefts, |left| kind(left) == workload);
    match category {
        WasteCategory::Underload if is_most(lefts, is_full) => "profile",
        _ if is_most_of(Workload::Serving) => "requests",
        WasteCategory::Idle if is_most_of(Workload::Interactive) => "sessions",
        WasteCategory::Idle if is_most(lefts, is_held) => "stack_dump",
        WasteCategory::Idle => "queued_jobs",
        // What a job waits for tells more than how much of the GPU it could use.
        WasteCategory::Underload if is_most_of(Workload::Training) => "profile",
        WasteCategory::Underload if !is_most(lefts, measures_sms) => "sm.activity",
        WasteCategory::Underload | WasteCategory::Starvation => "profile",
    }
}

/// Whether it was mostly held while idle.
fn is_held(left: &Left<'_>) -> bool {
    let accounts = &left.summary.accounts;
    accounts[Account::IdleHeld].time > accounts[Account::IdleFree].time
}

/// Whether it was full while it worked.
fn is_full(left: &Left<'_>) -> bool {
    let work = [Phase::Underutilized, Phase::Productive, Phase::ComputeBound];
    is_at_least(left, &work, FULL_FROM_PPM)
}

/// Whether it worked a little while idle.
fn works_while_idle(left: &Left<'_>) -> bool {
    is_at_least(left, &[Phase::Idle], WORKS_FROM_PPM)
}

/// Whether the mean utilization in these phases is as high.
fn is_at_least(left: &Left<'_>, phases: &[Phase], ppm: u128) -> bool {
    let phases = phases.iter().map(|phase| left.summary.accounts.phase(*phase));
    let (time, weighted) = phases.fold((0, 0), |(time, weighted), it| {
        (time + u128::from(it.time.0), weighted + it.weighted)
    });
    weighted >= time * ppm
}

fn measures_sms(left: &Left<'_>) -> bool {
    left.gpu.measures(Basis::GpmSm, Quantity::SmActivity)
}
