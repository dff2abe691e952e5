//! The findings of a report in one order: recommendations, and waste that no recommendation is about.

use crate::model::Report;
use crate::policies::{Recommendation, Stake, UncoveredWaste};
use crate::value::Usd;

/// One finding.
#[derive(Clone, Debug)]
pub(crate) enum Finding<'a> {
    /// What to do.
    Advice(&'a Recommendation),
    /// Waste of one or several categories, with what decides it.
    Uncovered(Vec<&'a UncoveredWaste>),
}

impl Report {
    /// Recommendations in their order, and each uncovered waste before those about less waste. Risks are before all,
    /// and lower rates, which could be recommended to anyone, after all.
    pub(crate) fn findings(&self) -> Vec<Finding<'_>> {
        let mut wastes = alike(&self.uncovered_waste).into_iter().peekable();
        let mut findings = Vec::new();
        for it in &self.recommendations {
            if !it.is_risk() {
                let is_before = |(stake, _): &(Stake, Vec<_>)| stake.order(&it.at_stake).is_lt();
                while let Some((_, waste)) = wastes.next_if(is_before) {
                    findings.push(Finding::Uncovered(waste));
                }
            }
            findings.push(Finding::Advice(it));
        }
        findings.extend(wastes.map(|(_, waste)| Finding::Uncovered(waste)));
        findings
    }
}

/// Waste of the same GPUs for which the same is to be done is one finding. The largest is first.
fn alike(all: &[UncoveredWaste]) -> Vec<(Stake, Vec<&UncoveredWaste>)> {
    let mut groups: Vec<Vec<&UncoveredWaste>> = Vec::new();
    for it in all {
        match groups.iter_mut().find(|group| group.first().is_some_and(|one| one.is_alike(it))) {
            Some(group) => group.push(it),
            None => groups.push(vec![it]),
        }
    }
    let staked = groups.into_iter().map(|group| {
        let usd: Option<Vec<_>> = group.iter().map(|it| Some(it.usd?.0)).collect();
        let usd = usd.map(|all| Usd(all.into_iter().sum()));
        (Stake { usd, gpu_hours: group.iter().map(|it| it.gpu_hours).sum() }, group)
    });
    let mut staked: Vec<_> = staked.collect();
    staked.sort_by(|(a, _), (b, _)| a.order(b));
    staked
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::NanoUsd;

    use super::*;
    use crate::test_fleet::{TestGpu, bouncing, every_second, input, recommendation, user_price};

    fn stake(dollars: i128) -> Stake {
        Stake { usd: Some(Usd(NanoUsd(dollars * 1_000_000_000))), gpu_hours: dollars as f64 }
    }

    fn wasted(category: &'static str, dollars: i128, missing: &str) -> UncoveredWaste {
        UncoveredWaste {
            category,
            gpus: vec!["0".to_owned()],
            usd: stake(dollars).usd,
            fraction: 0.1,
            gpu_hours: dollars as f64,
            is_rest: false,
            risks: Vec::new(),
            missing: vec![missing.to_owned()],
            outcomes: Vec::new(),
        }
    }

    /// The largest waste has the first place, with what to do or with what decides it.
    #[test]
    fn findings_are_ordered_by_what_is_at_stake() {
        let gpus = [TestGpu::new(0, user_price("3"), &every_second(90, bouncing))];
        let mut report = Report::build(&input("train.csv", &gpus));
        let advice = |code: &str, target, kind, at_stake| Recommendation {
            code: code.to_owned(),
            at_stake,
            ..recommendation(target, kind, &["0"])
        };
        let none = Stake::default();
        report.recommendations = vec![
            advice("rate", "rate", "saving", none),
            advice("three", "idle", "capacity", stake(3)),
            advice("risk", "throughput", "risk", none),
            advice("nine", "starvation", "saving", stake(9)),
        ];
        report.recommendations.sort_by(Recommendation::order);
        // Together 7, for which the same is to be done.
        report.uncovered_waste = vec![
            wasted("underload", 4, "profile"),
            wasted("idle", 3, "profile"),
            wasted("starvation", 1, "interval"),
        ];
        let order: Vec<String> = report.findings().iter().map(name).collect();
        assert_eq!(order, ["risk", "nine", "underload idle", "three", "starvation", "rate"]);
    }

    fn name(finding: &Finding<'_>) -> String {
        match finding {
            Finding::Advice(it) => it.code.clone(),
            Finding::Uncovered(all) => {
                all.iter().map(|it| it.category).collect::<Vec<_>>().join(" ")
            }
        }
    }
}
