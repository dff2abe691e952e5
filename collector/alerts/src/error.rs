//! Why a file of rules cannot be used.

/// Why a file of rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// What is wrong, and what to do.
    pub problem: String,
}
