//! Sets what is at stake for each recommendation, by which they are ranked.

use std::collections::BTreeMap;

use phasemeter_savings::recommendation::Target;

use super::{MeteredGpu, Recommendation, Stake};

/// Sets what each recommendation is about. Alternatives, which have one target and the same GPUs, share the largest
/// stake of them: which of them is best does not depend on how much of the waste each may recover.
pub(super) fn set(recommendations: &mut [Recommendation], gpus: &[MeteredGpu<'_>]) {
    let by_name: BTreeMap<&str, MeteredGpu<'_>> =
        gpus.iter().map(|gpu| (gpu.0.identity.name.as_str(), *gpu)).collect();
    let mut largest: BTreeMap<(Target, Vec<String>), Stake> = BTreeMap::new();
    let has_stake = |it: &Recommendation| !it.is_risk() && !it.is_of_rate_alone();
    for it in recommendations.iter().filter(|it| has_stake(it)) {
        let Some(change) = it.change() else { continue };
        let named = it.gpus.iter().filter_map(|id| by_name.get(id.as_str()).copied());
        let stake = Stake::of(&change, named);
        let known = largest.entry(it.waste_key()).or_insert(stake);
        if stake.order(known).is_lt() {
            *known = stake;
        }
    }
    for it in recommendations.iter_mut().filter(|it| has_stake(it)) {
        it.at_stake = largest.get(&it.waste_key()).copied().unwrap_or_default();
    }
}

/// Numbers the trials about the same waste, in the order of the report.
pub(super) fn number_trials(recommendations: &mut [Recommendation]) {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for it in recommendations.iter().filter(|it| it.open_trial().is_some()) {
        *counts.entry(it.waste_key()).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    let mut placed: BTreeMap<_, usize> = BTreeMap::new();
    for it in recommendations.iter_mut() {
        let key = it.waste_key();
        if it.open_trial().is_none() || !counts.contains_key(&key) {
            continue;
        }
        let place = placed.entry(key).or_default();
        *place += 1;
        if let Some(trial) = &mut it.trial {
            trial.order = Some(*place);
        }
    }
}
