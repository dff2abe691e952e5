//! Why a report is rejected: one line that names the file, the field and what to do.

use std::io;

/// Why a report is rejected, or an invoice cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("{file}: cannot be read; check its name and permissions")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A directory or pattern has no files.
    #[error("{name}: no reports (*.json) match; name reports of `phasemeter` with --format json")]
    NoFiles {
        /// The directory or pattern.
        name: String,
    },
    /// A field is missing or malformed.
    #[error("{file}: {field}: {problem}; expected a report of `phasemeter` with --format json")]
    Field {
        /// The file.
        file: String,
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It does not begin as a report does.
    #[error(
        "{file}: not a JSON report; if it is a log, `phasemeter audit {file} --report FILE` writes its report"
    )]
    NotAReport {
        /// The file.
        file: String,
    },
    /// The report contradicts itself.
    #[error("{file}: {field}: {problem}; write the report again")]
    Contradiction {
        /// The file.
        file: String,
        /// The path of the field.
        field: String,
        /// What contradicts what.
        problem: String,
    },
}

impl ReadError {
    /// Whether the file could not be read at all, or there is none.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::NoFiles { .. })
    }
}
