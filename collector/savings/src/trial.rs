//! Trials: what an experiment has shown of a recommendation that was a hypothesis.

use super::recommendation::Saving;

/// Hours with work that each report of a trial has at least: fewer give no interval.
pub const MIN_HOURS: usize = 16;

/// What a trial has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A unit of work costs less.
    Saves,
    /// Chance explains the difference.
    NoDifference,
    /// A unit of work costs more.
    Worse,
    /// The reports do not show it.
    NotComparable,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Saves, Self::NoDifference, Self::Worse, Self::NotComparable];

    /// The name in records and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saves => "saves",
            Self::NoDifference => "no_difference",
            Self::Worse => "worse",
            Self::NotComparable => "not_comparable",
        }
    }
}

/// A recommendation that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The policy that returned it.
    pub policy: String,
    /// The policy's code for it.
    pub code: String,
    /// IDs of its GPUs in the report before.
    pub gpus: Vec<String>,
    /// What was shown: never [`Outcome::NotComparable`].
    pub outcome: Outcome,
    /// What it saves, as a fraction of the bill of its GPUs: measured, with its interval. Nothing unless it
    /// [saves](Outcome::Saves).
    pub saving: Saving,
    /// The file of the record.
    pub record: String,
}

impl Settled {
    /// Whether it is about a recommendation: the same one, for a GPU on which it was tried.
    #[must_use]
    pub fn is_about(&self, policy: &str, code: &str, gpus: &[String]) -> bool {
        self.policy == policy && self.code == code && gpus.iter().any(|gpu| self.gpus.contains(gpu))
    }
}
