//! Why a trial cannot be settled, or a record of one is refused: one line that names the file and what to do.

use crate::compare::CompareError;

/// Why a trial cannot be settled, or a record of one is refused.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The report before has several trials, or none.
    #[error("{file}: {}", several(.codes))]
    NoTrial {
        /// The report before.
        file: String,
        /// The codes of its trials.
        codes: Vec<String>,
    },
    /// The report before has no trial with this code.
    #[error("{file}: has no trial {code:?}; {}", expected(.codes))]
    NotTried {
        /// The report before.
        file: String,
        /// What was given.
        code: String,
        /// The codes of its trials.
        codes: Vec<String>,
    },
    /// The file is not a record.
    #[error("{record}: not a record of a trial: {problem}")]
    NoRecord {
        /// The record.
        record: String,
        /// Why.
        problem: String,
    },
    /// A report is not the one that it was settled by.
    #[error(
        "{record}: {file} has changed (SHA-256 {found}, not {expected}); settle it again with phasemeter trial"
    )]
    Digest {
        /// The record.
        record: String,
        /// The report.
        file: String,
        /// Its digest as recorded.
        expected: String,
        /// Its digest now.
        found: String,
    },
    /// It is about something that the report before does not recommend.
    #[error("{record}: {problem}; settle it again with phasemeter trial")]
    Subject {
        /// The record.
        record: String,
        /// What differs.
        problem: String,
    },
    /// The reports do not show what it states.
    #[error("{record}: its reports show another result; settle it again with phasemeter trial")]
    Result {
        /// The record.
        record: String,
    },
    /// The reports cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

fn several(codes: &[String]) -> String {
    if codes.is_empty() {
        return "recommends no trial".to_owned();
    }
    format!("has several trials; set --recommendation to one of {}", codes.join(", "))
}

fn expected(codes: &[String]) -> String {
    if codes.is_empty() {
        return "it has no trials".to_owned();
    }
    format!("expected one of {}", codes.join(", "))
}
