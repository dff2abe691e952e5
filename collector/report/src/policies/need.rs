//! Missing information, in the order in which users should add it.

use phasemeter_engine::policies::PolicyResults;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation;
use phasemeter_rules::workload::WORKLOAD;
use serde::Serialize;

/// Missing information, without which something cannot be recommended or ruled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// A column, attribute or setting.
    pub missing: String,
    /// What it would tell.
    pub reason: String,
    /// IDs of the GPUs that it is missing for.
    pub gpus: Vec<String>,
}

/// What missing information is about, in the order in which it helps. The names are those of the default policies;
/// others are about waste.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// What was read at all: without it, no use of the GPU is understood.
    Readings,
    /// How the readings are understood.
    Context,
    /// Why time was wasted.
    Waste,
    /// What the time costs.
    Price,
    /// How fast full GPUs are.
    Speed,
}

/// In the order of the report.
const SUBJECTS: [(&str, Subject); 16] = [
    ("name", Subject::Readings),
    ("readings", Subject::Readings),
    ("utilization.gpu", Subject::Readings),
    ("power.draw", Subject::Readings),
    ("duration", Subject::Context),
    ("interval", Subject::Context),
    ("memory.used", Subject::Context),
    (WORKLOAD, Subject::Context),
    ("price", Subject::Price),
    ("provider", Subject::Price),
    ("instance-type", Subject::Price),
    ("spot_price", Subject::Price),
    ("fp64.activity", Subject::Speed),
    ("fp32.activity", Subject::Speed),
    ("tensor.activity", Subject::Speed),
    ("throughput", Subject::Speed),
];

/// How metrics of activity end: of SMs, memory bandwidth and links. They are of the time with work.
const ACTIVITY: &str = ".activity";

impl Need {
    /// All of these results. If several policies need the same, the reason of the first counts.
    pub(super) fn all(results: &PolicyResults) -> Vec<Self> {
        let doubtful = results.hints().map(|(policy, it)| Self::for_doubtful(policy, it));
        let mut needs = Self::unique(results.needs().map(Self::from));
        needs.extend(doubtful);
        needs.sort_by_key(Self::place);
        needs
    }

    fn unique(all: impl Iterator<Item = Self>) -> Vec<Self> {
        all.fold(Vec::new(), |mut needs: Vec<Self>, need| {
            if !needs.iter().any(|it| (&it.missing, &it.gpus) == (&need.missing, &need.gpus)) {
                needs.push(need);
            }
            needs
        })
    }

    /// Of a recommendation that its policy is hardly confident of, or expects nothing of.
    fn for_doubtful(policy: &Policy, it: &recommendation::Recommendation) -> Self {
        let percent = it.confidence.as_f64() * 100.0;
        let reason = format!(
            "{} is {percent:.0}% confident of \"{}\", {}",
            policy.manifest().name,
            it.title,
            at_most(it.saving.high.as_f64()),
        );
        Self { missing: "evidence".to_owned(), reason, gpus: it.gpus.clone() }
    }

    /// Its subject, and its place there.
    fn place(&self) -> (Subject, usize) {
        let known = SUBJECTS.iter().enumerate().find(|(_, (name, _))| *name == self.missing);
        known.map_or((Subject::Waste, 0), |(place, (_, subject))| (*subject, place))
    }

    /// Whether it can explain waste of GPUs: of those with work, or without.
    pub(super) fn explains_waste(&self, with_work: bool) -> bool {
        let is_of_waste = matches!(self.place().0, Subject::Context | Subject::Waste);
        is_of_waste && (with_work || !self.missing.ends_with(ACTIVITY))
    }
}

/// What a share of the bill saves, at most: one that rounds to nothing saves nothing.
fn at_most(share: f64) -> String {
    let percent = format!("{:.0}", share * 100.0);
    if percent == "0" {
        "which promises no saving".to_owned()
    } else {
        format!("which saves {percent}% at most")
    }
}

impl From<&recommendation::Need> for Need {
    fn from(need: &recommendation::Need) -> Self {
        let recommendation::Need { missing, reason, gpus } = need.clone();
        Self { missing, reason, gpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(missing: &str, reason: &str, gpus: &[&str]) -> Need {
        let gpus = gpus.iter().map(|&gpu| gpu.to_owned()).collect();
        Need { missing: missing.to_owned(), reason: reason.to_owned(), gpus }
    }

    #[test]
    fn needs_are_listed_once_and_readings_come_first() {
        let given = [
            need("throughput", "", &["0"]),
            need("requests", "first", &["0", "1"]),
            need("tensor.activity", "", &["0"]),
            need("fp32.activity", "", &["0"]),
            need("fp64.activity", "", &["0"]),
            need("provider", "", &["0"]),
            need("memory_in_use", "", &["0"]),
            need("requests", "second", &["0", "1"]),
            need("requests", "of another GPU", &["2"]),
            need(WORKLOAD, "", &["0"]),
            need("utilization.gpu", "", &["1"]),
        ];
        let mut all = Need::unique(given.into_iter());
        all.sort_by_key(Need::place);
        let listed: Vec<_> =
            all.iter().map(|it| (it.missing.as_str(), it.reason.as_str())).collect();
        let expected = [
            ("utilization.gpu", ""),
            (WORKLOAD, ""),
            ("requests", "first"),
            ("memory_in_use", ""),
            ("requests", "of another GPU"),
            ("provider", ""),
            ("fp64.activity", ""),
            ("fp32.activity", ""),
            ("tensor.activity", ""),
            ("throughput", ""),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn saving_that_rounds_to_nothing_is_none() {
        for none in [0.0, 0.001, 0.004_9] {
            assert_eq!(at_most(none), "which promises no saving");
        }
        assert_eq!(at_most(0.006), "which saves 1% at most");
        assert_eq!(at_most(0.3), "which saves 30% at most");
    }

    #[test]
    fn activity_explains_only_time_with_work() {
        let explains =
            |missing| [true, false].map(|work| need(missing, "", &[]).explains_waste(work));
        assert_eq!(explains("requests"), [true, true]);
        assert_eq!(explains("sm.activity"), [true, false]);
        for other in ["fp64.activity", "fp32.activity", "tensor.activity", "provider", "name"] {
            assert_eq!(explains(other), [false, false], "{other}");
        }
    }
}
