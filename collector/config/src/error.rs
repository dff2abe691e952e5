//! Why a configuration file cannot be used.

use std::path::{Path, PathBuf};

use phasemeter_terminal::escape::clean;

use crate::configuration::FileError;
use crate::finding::Finding;

/// A configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// None is named.
    #[error("no configuration file; name one, or set OTEL_CONFIG_FILE")]
    Unnamed,
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] FileError),
    /// What is wrong with it, each with the name of the file and its line.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    /// Its options do not go together, or not with those of the command line.
    #[error("{}: {}", .0.display(), .1)]
    Options(PathBuf, String),
}

impl ConfigurationError {
    /// That this is wrong with a file.
    pub(crate) fn invalid(path: &Path, findings: &[Finding]) -> Self {
        Self::Invalid(Self::problems(path, findings))
    }

    /// What is wrong with a file, a line each.
    #[must_use]
    pub fn problems(path: &Path, findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|finding| format!("{}:{finding}", path.display())).collect()
    }

    /// Which of its options do not go together, a line each.
    #[must_use]
    pub fn conflicts(path: &Path, reasons: &[String]) -> Vec<String> {
        reasons.iter().map(|reason| format!("{}: {reason}", path.display())).collect()
    }

    /// One line per problem, with control characters replaced.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines.iter().map(|line| clean(line)).collect(),
            Self::Unreadable(error) => vec![clean(&format!("{error}: {}", error.source))],
            other => vec![clean(&other.to_string().replace('\n', "; "))],
        }
    }
}
