//! Why a configuration file cannot be used.

use std::path::{Path, PathBuf};

use phasemeter_config::{FileError, Finding};
use phasemeter_terminal::escape::clean;

use super::exit_status::{EX_CONFIG, EX_NOINPUT, EX_USAGE};

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
        let path = path.display();
        Self::Invalid(findings.iter().map(|finding| format!("{path}:{finding}")).collect())
    }

    /// One line per problem, with control characters replaced.
    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines.iter().map(|line| clean(line)).collect(),
            Self::Unreadable(error) => vec![clean(&format!("{error}: {}", error.source))],
            other => vec![clean(&other.to_string().replace('\n', "; "))],
        }
    }

    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Unnamed => EX_USAGE,
            Self::Unreadable(_) => EX_NOINPUT,
            Self::Invalid(_) | Self::Options(..) => EX_CONFIG,
        }
    }
}
