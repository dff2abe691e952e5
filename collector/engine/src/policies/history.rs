//! Recommendations of earlier windows, which policies receive with the next one.

use std::collections::BTreeSet;

use phasemeter_meter::units::Timestamp;
use phasemeter_rules::window::{MAX_PREVIOUS, Previous};

use super::result::PolicyResults;

/// The recommendations of a live run so far, oldest first: at most [`MAX_PREVIOUS`].
#[derive(Debug, Default)]
pub struct RecommendationHistory(Vec<Previous>);

impl RecommendationHistory {
    /// All of them.
    pub fn list(&self) -> Vec<Previous> {
        self.0.clone()
    }

    /// Records the results for the window that ended at this time. A policy that failed is left as it
    /// was.
    pub fn record(&mut self, end: Timestamp, results: &PolicyResults) {
        let evaluated = results.each.iter().map(|result| result.policy.manifest().name.as_str());
        self.keep_given_by(&evaluated.collect::<BTreeSet<_>>());
        for result in &results.each {
            let Ok(response) = &result.result else { continue };
            let recommended = response.recommendations.iter();
            let recommended = recommended.map(|it| (it.code.as_str(), it.gpus.as_slice()));
            self.replace(end, &result.policy.manifest().name, recommended);
        }
    }

    /// Ends those of policies that are no longer in use.
    fn keep_given_by(&mut self, policies: &BTreeSet<&str>) {
        for known in &mut self.0 {
            known.still_given &= policies.contains(known.policy.as_str());
        }
    }

    /// Records the recommendations of one policy.
    fn replace<'a>(
        &mut self,
        end: Timestamp,
        policy: &str,
        recommended: impl Iterator<Item = (&'a str, &'a [String])>,
    ) {
        for known in self.0.iter_mut().filter(|known| known.policy == policy) {
            known.still_given = false;
        }
        for (code, gpus) in recommended {
            let same = |known: &&mut Previous| {
                known.policy == policy && known.code == code && known.gpus == gpus
            };
            match self.0.iter_mut().find(same) {
                Some(known) => known.still_given = true,
                None => self.add(Previous {
                    policy: policy.to_owned(),
                    code: code.to_owned(),
                    gpus: gpus.to_vec(),
                    first_given: end,
                    still_given: true,
                }),
            }
        }
    }

    /// Adds one. If there are too many, it replaces the oldest that is no longer given.
    fn add(&mut self, new: Previous) {
        if self.0.len() == MAX_PREVIOUS {
            let Some(past) = self.0.iter().position(|known| !known.still_given) else { return };
            self.0.remove(past);
        }
        self.0.push(new);
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;

    use super::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(60 * minutes)
    }

    fn list(history: &RecommendationHistory) -> Vec<(String, Timestamp, bool)> {
        let all = history.list().into_iter();
        all.map(|it| (it.code, it.first_given, it.still_given)).collect()
    }

    #[test]
    fn recommendation_keeps_when_it_was_first_given() {
        let gpus = ["GPU-0".to_owned()];
        let mut history = RecommendationHistory::default();
        let mut record = |minutes, codes: &[&str]| {
            let codes = codes.iter().map(|code| (*code, gpus.as_slice()));
            history.replace(at(minutes), "sharing", codes);
            list(&history)
        };
        let given = |code: &str, minutes, still| (code.to_owned(), at(minutes), still);
        assert_eq!(record(5, &["a"]), [given("a", 5, true)]);
        assert_eq!(record(10, &["a", "b"]), [given("a", 5, true), given("b", 10, true)]);
        assert_eq!(record(15, &["b"]), [given("a", 5, false), given("b", 10, true)]);
        assert_eq!(record(20, &["a", "b"]), [given("a", 5, true), given("b", 10, true)]);
    }

    #[test]
    fn recommendation_of_a_policy_that_was_removed_is_no_longer_given() {
        let gpus = ["GPU-0".to_owned()];
        let mut history = RecommendationHistory::default();
        for policy in ["rate", "sharing"] {
            history.replace(at(5), policy, [(policy, gpus.as_slice())].into_iter());
        }
        history.keep_given_by(&BTreeSet::from(["sharing", "sizing"]));
        let given = |code: &str, still| (code.to_owned(), at(5), still);
        assert_eq!(list(&history), [given("rate", false), given("sharing", true)]);
    }

    #[test]
    fn history_is_bounded_and_prefers_what_is_still_given() {
        let gpus = ["GPU-0".to_owned()];
        let mut history = RecommendationHistory::default();
        let codes: Vec<_> = (0..100).map(|code| format!("c{code}")).collect();
        let of = |range: std::ops::Range<usize>| {
            codes[range].iter().map(|code| (code.as_str(), gpus.as_slice()))
        };
        history.replace(at(0), "a", of(0..40));
        history.replace(at(1), "a", of(30..100));
        let all = list(&history);
        assert_eq!(all.len(), MAX_PREVIOUS);
        assert!(all.iter().all(|(_, _, still_given)| *still_given));
        assert_eq!(all[0], ("c30".to_owned(), at(0), true));
    }
}
