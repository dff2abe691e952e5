//! Rows of a log that were rejected.

use serde::Serialize;

/// A rejected row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedRow {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// Why it was rejected.
    pub reason: String,
}
