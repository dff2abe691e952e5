//! The rules for alerts of a run: those that are evaluated, and those that are not, with the reason.

use std::sync::Arc;

use phasemeter_meter::alert::Rule;

/// The rules of a run; none by default.
#[derive(Clone, Debug, Default)]
pub struct AlertRules {
    /// Those that are evaluated.
    pub rules: Arc<[Rule]>,
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

impl AlertRules {
    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.skipped.is_empty()
    }
}
