//! Compares the recommendations of a report with what a situation expects.

use crate::expectation::{Common, Expected, Forbidden, Promise, Rule};
use crate::lever::OTHERS;
use crate::report::{Recommendation, Report};
use crate::situation::Situation;

/// The comparison of one situation.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub(crate) kind: &'static str,
    pub(crate) situation: String,
    pub(crate) cells: Vec<Cell>,
}

/// One expectation or one recommendation, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) outcome: Outcome,
    /// Levers or missing information.
    pub(crate) names: Vec<String>,
    /// Groups of GPUs; all if empty.
    pub(crate) gpus: Vec<String>,
    /// The reason given in the situation.
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An expected recommendation was given, or not.
    Advised,
    Missed,
    /// Missing information was named, or not.
    Named,
    Unnamed,
    /// A recommendation that is expected or accepted, or neither that nor forbidden.
    Right,
    Unlisted,
    /// A recommendation or a promise that is forbidden.
    Wrong,
}

/// The GPUs of a situation, as a report identifies them.
struct Ids<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Ids<'a> {
    fn new(situation: &'a Situation, report: &'a Report) -> Self {
        let gpus = situation.gpus();
        let of = |(position, id): (usize, &'a str)| {
            let gpu = gpus.iter().find(|gpu| gpu.uuid == id).or_else(|| gpus.get(position));
            (gpu.map_or("", |gpu| gpu.group.name.as_str()), id)
        };
        let ids = report.gpus.iter().map(|gpu| gpu.id.as_str());
        Self(ids.enumerate().map(of).collect())
    }

    /// The IDs of these groups; all if there are none.
    fn of<'b>(&'b self, groups: &'b [String]) -> impl Iterator<Item = &'a str> + 'b {
        let wanted = |name: &str| groups.is_empty() || groups.iter().any(|group| group == name);
        self.0.iter().filter(move |(name, _)| wanted(name)).map(|(_, id)| *id)
    }

    /// The groups of these GPUs.
    fn groups(&self, gpus: &[String]) -> Vec<String> {
        let of = self.0.iter().filter(|(_, id)| gpus.iter().any(|gpu| gpu == id));
        let mut names: Vec<_> = of.map(|(name, _)| (*name).to_owned()).collect();
        names.dedup();
        names
    }

    fn overlap(&self, groups: &[String], recommendation: &Recommendation) -> bool {
        self.of(groups).any(|id| recommendation.gpus.iter().any(|gpu| gpu == id))
    }
}

/// Compares a report with the expectations of its situation.
#[must_use]
pub fn compare(
    situation: &Situation,
    situations: &crate::load::Situations,
    report: &Report,
) -> Comparison {
    let ids = Ids::new(situation, report);
    let mut cells = Vec::new();
    for expected in &situation.expected {
        let advised = ids.of(&expected.gpus).all(|id| advises(expected, report, id));
        cells.push(Cell {
            outcome: if advised { Outcome::Advised } else { Outcome::Missed },
            names: expected.levers.0.clone(),
            gpus: expected.gpus.clone(),
            why: expected.why.clone(),
        });
    }
    for need in &situation.needs {
        let named = |id: &str| {
            report.needs.iter().any(|named| {
                need.missing.contains(&named.missing) && named.gpus.iter().any(|gpu| gpu == id)
            })
        };
        let all = ids.of(&need.gpus).all(named);
        cells.push(Cell {
            outcome: if all { Outcome::Named } else { Outcome::Unnamed },
            names: need.missing.clone(),
            gpus: need.gpus.clone(),
            why: need.why.clone(),
        });
    }
    let recommendations = report.recommendations.iter();
    cells.extend(recommendations.map(|it| assess(it, situation, &situations.common, &ids)));
    cells.extend(monthly(situation, &situations.common, report));
    Comparison { kind: situation.kind, situation: situation.id(), cells }
}

fn advises(expected: &Expected, report: &Report, id: &str) -> bool {
    report.recommendations.iter().any(|it| {
        expected.levers.0.contains(&it.lever)
            && (expected.kind.is_none() || expected.kind == it.kind)
            && it.gpus.iter().any(|gpu| gpu == id)
    })
}

/// The outcome of one recommendation.
fn assess(
    recommendation: &Recommendation,
    situation: &Situation,
    common: &Common,
    ids: &Ids<'_>,
) -> Cell {
    let lever = &recommendation.lever;
    let listing = situation.expected.iter().map(|entry| (&entry.gpus, &entry.levers));
    let accepted = situation.accepted.iter().map(|entry| (&entry.gpus, &entry.levers));
    let listing: Vec<_> =
        listing.chain(accepted).filter(|(_, levers)| levers.0.contains(lever)).collect();
    let listed = listing.iter().any(|(gpus, _)| ids.overlap(gpus, recommendation));
    let forbids = |entry: &&Forbidden| {
        let named = entry.levers.0.contains(lever)
            || (!listed && entry.levers.0.iter().any(|lever| lever == OTHERS));
        named && ids.overlap(&entry.gpus, recommendation) && promises(recommendation, entry.promise)
    };
    let exceeded = |entry: &&Expected| {
        let max = entry.max_saving.map(|percent| f64::from(percent) / 100.0);
        entry.levers.0.contains(lever)
            && ids.overlap(&entry.gpus, recommendation)
            && max.is_some_and(|max| recommendation.saving_fraction.expected > max)
    };
    let applies = |rule: &&Rule| {
        rule.levers.0.contains(lever)
            && (rule.promise.is_some() || !listed)
            && concerns(rule, situation)
            && promises(recommendation, rule.promise)
    };
    let of = |outcome, why: &str| Cell {
        outcome,
        names: vec![lever.clone()],
        gpus: ids.groups(&recommendation.gpus),
        why: why.to_owned(),
    };
    if let Some(entry) = situation.forbidden.iter().find(forbids) {
        return of(Outcome::Wrong, &entry.why);
    }
    if let Some(max) = situation.expected.iter().find(exceeded).and_then(|entry| entry.max_saving) {
        let percent = 100.0 * recommendation.saving_fraction.expected;
        let why = format!("expects to save {percent:.0}% of the bill; at most {max}% is possible");
        return of(Outcome::Wrong, &why);
    }
    if let Some(rule) = common.forbidden.iter().find(applies) {
        return of(Outcome::Wrong, &rule.why);
    }
    let everywhere = recommendation
        .gpus
        .iter()
        .all(|gpu| listing.iter().any(|(groups, _)| ids.of(groups).any(|id| id == gpu)));
    let general = common.accepted.iter().any(|entry| entry.levers.0.contains(lever));
    of(if everywhere || general { Outcome::Right } else { Outcome::Unlisted }, "")
}

/// Whether a recommendation makes this promise.
fn promises(recommendation: &Recommendation, promise: Option<Promise>) -> bool {
    let saving = recommendation.saving_fraction;
    match promise {
        None => true,
        Some(Promise::Low) => saving.low > 0.0,
        Some(Promise::Saving) => saving.high > 0.0,
        Some(Promise::Cash) => {
            recommendation.counted && recommendation.saving_usd.is_some() && saving.high > 0.0
        }
        Some(Promise::Automation) => recommendation.remediation.is_some(),
        // Of the whole report.
        Some(Promise::Monthly) => false,
    }
}

fn concerns(rule: &Rule, situation: &Situation) -> bool {
    (rule.workloads.is_empty() || rule.workloads.contains(&situation.workload))
        && rule.shorter_than.is_none_or(|length| situation.length.0 < length.0)
        && rule.without.as_ref().is_none_or(|name| !situation.columns().contains(&name.as_str()))
}

/// A monthly saving that must not be promised.
fn monthly(situation: &Situation, common: &Common, report: &Report) -> Option<Cell> {
    let monthly = report.savings.as_ref()?.monthly_usd.as_ref()?;
    let own = situation.forbidden.iter().filter(|entry| entry.promise == Some(Promise::Monthly));
    let rules = common
        .forbidden
        .iter()
        .filter(|rule| rule.promise == Some(Promise::Monthly) && concerns(rule, situation));
    let why = own.map(|entry| &entry.why).chain(rules.map(|rule| &rule.why)).next()?;
    monthly.is_positive().then(|| Cell {
        outcome: Outcome::Wrong,
        names: vec!["monthly saving".to_owned()],
        gpus: Vec::new(),
        why: why.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::load::Situations;

    fn situations() -> (Situation, Situations) {
        let mut situation: Situation = toml::from_str(
            r#"
            title = "Test"
            workload = "training"
            length = "1h"
            every = "1s"
            [[gpus]]
            name = "slow"
            count = 2
            model = "NVIDIA L4"
            load = "45..57%"
            memory = "4 GiB"
            [[gpus]]
            name = "free"
            model = "NVIDIA L4"
            load = "0%"
            memory = "0 GiB"
            [[expected]]
            gpus = ["slow"]
            levers = ["batch", "measure"]
            max_saving = 50
            why = "-"
            [[accepted]]
            gpus = ["free"]
            levers = ["bin_pack"]
            why = "-"
            [[forbidden]]
            gpus = ["free"]
            levers = ["@others"]
            why = "others"
            [[needs]]
            gpus = ["slow"]
            missing = ["power.draw"]
            why = "-"
            "#,
        )
        .unwrap();
        situation.kind = "training";
        let common = toml::from_str(
            r#"
            [[forbidden]]
            levers = ["spot", "batch"]
            why = "rule"
            [[forbidden]]
            levers = ["measure"]
            promise = "low"
            why = "low"
            [[forbidden]]
            promise = "monthly"
            shorter_than = "2h"
            why = "monthly"
            [[accepted]]
            levers = ["region"]
            why = "-"
            "#,
        )
        .unwrap();
        (situation, Situations { all: Vec::new(), common })
    }

    fn id(gpu: u32) -> String {
        format!("GPU-{gpu:08x}-0000-4000-8000-000000000000")
    }

    fn recommendation(lever: &str, gpus: &[u32], saving: [f64; 3]) -> Value {
        let [low, expected, high] = saving;
        json!({
            "lever": lever,
            "gpus": gpus.iter().map(|gpu| id(*gpu)).collect::<Vec<_>>(),
            "saving_fraction": { "low": low, "expected": expected, "high": high },
            "saving_usd": { "low": "0" },
            "counted": true,
        })
    }

    /// Outcomes and reasons of a report with these recommendations.
    fn outcomes(recommendations: &[Value], more: &Value) -> Vec<(Outcome, String)> {
        let mut report = json!({
            "gpus": [{ "id": id(0) }, { "id": id(1) }, { "id": id(2) }],
            "recommendations": recommendations,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            report[name] = value.clone();
        }
        let (situation, situations) = situations();
        let compared = compare(&situation, &situations, &Report::parse(&report).unwrap());
        compared.cells.into_iter().map(|cell| (cell.outcome, cell.why)).collect()
    }

    fn outcome_of(lever: &str, gpus: &[u32], saving: [f64; 3]) -> (Outcome, String) {
        outcomes(&[recommendation(lever, gpus, saving)], &Value::Null).remove(2)
    }

    const NONE: [f64; 3] = [0.0; 3];

    #[test]
    fn expected_recommendations_must_cover_all_gpus() {
        let outcome = |gpus| outcomes(&[recommendation("batch", gpus, NONE)], &Value::Null)[0].0;
        assert_eq!([outcome(&[0]), outcome(&[0, 1])], [Outcome::Missed, Outcome::Advised]);
        let both = [recommendation("batch", &[0], NONE), recommendation("measure", &[1], NONE)];
        assert_eq!(outcomes(&both, &Value::Null)[0].0, Outcome::Advised);
    }

    #[test]
    fn needs_must_cover_all_gpus() {
        let named = |gpus: &[u32]| {
            let gpus: Vec<_> = gpus.iter().map(|gpu| id(*gpu)).collect();
            outcomes(&[], &json!({ "needs": [{ "missing": "power.draw", "gpus": gpus }] }))[1].0
        };
        assert_eq!([named(&[0]), named(&[0, 1, 2])], [Outcome::Unnamed, Outcome::Named]);
    }

    #[test]
    fn recommendations_are_right_unlisted_or_wrong() {
        let wrong = |why: &str| (Outcome::Wrong, why.to_owned());
        let plain = |outcome| (outcome, String::new());
        assert_eq!(outcome_of("bin_pack", &[2], NONE), plain(Outcome::Right));
        assert_eq!(outcome_of("region", &[0], NONE), plain(Outcome::Right));
        assert_eq!(outcome_of("overlap", &[0, 1], NONE), plain(Outcome::Unlisted));
        assert_eq!(outcome_of("bin_pack", &[0, 2], NONE), plain(Outcome::Unlisted));
        assert_eq!(outcome_of("overlap", &[2], NONE), wrong("others"));
        assert_eq!(outcome_of("spot", &[0], NONE), wrong("rule"));
        // Expected, so that the rule does not apply.
        assert_eq!(outcome_of("batch", &[0], [0.0, 0.4, 0.5]), plain(Outcome::Right));
        let exceeded = "expects to save 60% of the bill; at most 50% is possible";
        assert_eq!(outcome_of("batch", &[0], [0.0, 0.6, 0.7]), wrong(exceeded));
        // Promises are limited all the same.
        assert_eq!(outcome_of("measure", &[0], [0.1, 0.2, 0.3]), wrong("low"));
    }

    #[test]
    fn monthly_saving_of_short_log_is_wrong() {
        let outcome = |high: &str| {
            let savings = json!({ "savings": { "monthly_usd": { "high": high } } });
            outcomes(&[], &savings).get(2).map(|(outcome, _)| *outcome)
        };
        assert_eq!(outcome("12.500000000"), Some(Outcome::Wrong));
        assert_eq!(outcome("0.000000000"), None);
    }
}
