//! Errors of a plan: the option, its value, and what to do.

/// Why a question has no result. Displays as one line that names the option and a fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A value contradicts another one, or has no meaning for the question.
    #[error("--{option} {value}: {problem}; {fix}")]
    Invalid {
        /// The option, without its dashes.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// A value that nothing can stand in for was not given.
    #[error("--{option} is missing: {reason}; {fix}")]
    Missing {
        /// The option, without its dashes.
        option: &'static str,
        /// Why it is needed.
        reason: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A sum exceeds the range of money.
    #[error("the cost exceeds what can be represented; check the prices and the number of GPUs")]
    Overflow,
}

impl PlanError {
    /// A value that cannot be used.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts alike")]
    pub fn invalid(
        option: &'static str,
        value: impl ToString,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (problem, fix) = (problem.into(), fix.into());
        Self::Invalid { option, value: value.to_string(), problem, fix }
    }

    /// A value that was not given.
    #[must_use]
    pub const fn missing(option: &'static str, reason: &'static str, fix: &'static str) -> Self {
        Self::Missing { option, reason, fix }
    }
}
