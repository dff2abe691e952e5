//! Why a bill or a comparison is rejected: one line that names the file, the field and what to do.

pub use super::read_error::ReadError;

/// Why a bill cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BillError {
    /// A report is rejected, or an invoice cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The same of one of several reports.
    #[error("{0}, or skip such files with --skip-invalid")]
    ReadOneOf(#[source] ReadError),
    /// Two reports bill the same time of a GPU.
    #[error("{first} and {second}: both bill the same GPU at {at}; remove one of them")]
    Overlap {
        /// A file.
        first: String,
        /// The other file.
        second: String,
        /// The first instant that both bill.
        at: String,
    },
    /// An invoice is rejected.
    #[error("{file}, line {line}: {problem}")]
    Invoice {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A report changed between two reads of it.
    #[error("a report changed while it was read; run the command again")]
    Changed,
    /// No report is left.
    #[error("no valid report; name at least one report of `phasemeter` with --format json")]
    NoReports,
}

impl BillError {
    /// Whether a file could not be read at all.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Read(error) | Self::ReadOneOf(error) if error.is_unreadable())
    }
}
