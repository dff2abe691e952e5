//! What is wrong with a file, and where. No message contains a value of the file: it may be a secret.

use std::fmt::{self, Display, Formatter};

/// One problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The key, such as `tracer_provider.processors[0].batch`; empty for the whole file.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is not YAML.
    #[error("invalid YAML: {0}")]
    Yaml(String),
    /// The document is larger than allowed.
    #[error("too large: expected at most {0}")]
    TooLarge(&'static str),
    /// A mapping has a key twice.
    #[error("duplicate key")]
    Duplicate,
    /// The key has no meaning.
    #[error("unknown key{}", .0.as_ref().map(|key| format!("; did you mean {key}?")).unwrap_or_default())]
    Unknown(
        /// A similar key.
        Option<String>,
    ),
    /// A required key is missing.
    #[error("missing key {0}")]
    Missing(String),
    /// A reference to a variable is invalid.
    #[error("invalid reference {0}: expected ${{NAME}} or ${{NAME:-default}}; write $$ for $")]
    Reference(String),
    /// The value is not allowed.
    #[error("invalid value: {0}")]
    Value(
        /// What was expected.
        String,
    ),
    /// The version of the format is not supported.
    #[error("unsupported version: expected {0}")]
    Version(&'static str),
    /// The option of this key is refused.
    #[error("{0}")]
    Refused(String),
}

impl Finding {
    pub(crate) const fn new(line: usize, key: String, problem: Problem) -> Self {
        Self { line, key, problem }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.problem.fmt(f)
    }
}

/// The most similar of some names, if one is similar.
pub(crate) fn similar<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    const LEAST: f64 = 0.8;
    let scored = known.map(|name| (strsim::jaro_winkler(key, name), name));
    let best = scored.filter(|(score, _)| *score > LEAST).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name.to_owned())
}
