//! The rules for alerts of a run: those that are evaluated, and those that are not, with the reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use phasemeter_meter::alert::Rule;

/// The rules of a run; none by default.
#[derive(Clone, Debug, Default)]
pub struct AlertRules {
    /// Those that are evaluated, or were.
    pub rules: Arc<[Rule]>,
    /// The positions of those that are no longer evaluated.
    pub retired: BTreeSet<usize>,
    /// What each of them means if it holds.
    pub briefs: Vec<String>,
    /// The others.
    pub skipped: Vec<SkippedRule>,
}

/// A rule that is not evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRule {
    /// Its ID.
    pub id: String,
    /// Why, as a phrase without its full stop.
    pub reason: String,
}

/// The most rules of a run, those that are no longer evaluated included: each costs memory per GPU.
const MAX_RULES_OF_RUN: usize = 256;

impl AlertRules {
    /// These rules, in whose place others are evaluated from now on: equal ones go on. `None` if there are more than a run
    /// can have.
    #[must_use]
    pub fn followed_by(&self, next: &Self) -> Option<Self> {
        let mut all = Self {
            skipped: next.skipped.clone(),
            retired: (0..self.rules.len()).collect(),
            ..self.clone()
        };
        let mut rules = self.rules.to_vec();
        for (index, rule) in next.rules.iter().enumerate() {
            let is_active = |position: &usize| !self.retired.contains(position);
            let known = self.rules.iter().position(|known| known == rule).filter(is_active);
            match known {
                Some(position) => _ = all.retired.remove(&position),
                None => {
                    rules.push(rule.clone());
                    all.briefs.push(next.briefs.get(index).cloned().unwrap_or_default());
                }
            }
        }
        all.rules = rules.into();
        (all.rules.len() <= MAX_RULES_OF_RUN).then_some(all)
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.skipped.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::alert::{Condition, Metric};
    use phasemeter_meter::quantity::Quantity;
    use phasemeter_meter::units::Nanos;

    use super::*;

    fn rules(thresholds: &[u32]) -> AlertRules {
        let metric = Metric::of(Quantity::Utilization).unwrap();
        let rule = |threshold: &u32| {
            let (condition, minute) = (Condition::Below(*threshold), Nanos::from_secs(60));
            Rule::new("low".to_owned(), metric, condition, minute, Nanos::ZERO).unwrap()
        };
        let rules: Vec<_> = thresholds.iter().map(rule).collect();
        let briefs = thresholds.iter().map(ToString::to_string).collect();
        AlertRules { rules: rules.into(), briefs, ..AlertRules::default() }
    }

    #[test]
    fn equal_rules_go_on_and_others_are_retired_or_added() {
        let both = rules(&[1, 2]).followed_by(&rules(&[2, 3])).unwrap();
        assert_eq!((both.rules.len(), both.retired.clone()), (3, BTreeSet::from([0])));
        assert_eq!(both.briefs, ["1", "2", "3"]);
        // One that was retired has ended: it begins as another.
        let again = both.followed_by(&rules(&[1])).unwrap();
        assert_eq!((again.rules.len(), again.retired), (4, BTreeSet::from([0, 1, 2])));
        assert_eq!(again.rules[3], again.rules[0]);
    }

    #[test]
    fn rules_of_a_run_are_bounded() {
        let mut all = rules(&[]);
        let mut changes = 0;
        while let Some(next) = all.followed_by(&rules(&[changes, changes + 1])) {
            all = next;
            changes += 2;
        }
        assert_eq!((all.rules.len(), changes), (MAX_RULES_OF_RUN, 256));
    }
}
