//! A policy's validated self-description, and the kinds of policies.

use crate::schema::Schema;

/// A policy's self-description, validated.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Unique name: 1–64 of `a`–`z`, `0`–`9` and `-`, starting with a letter.
    pub name: String,
    /// Version for display: 1–32 bytes, no control characters.
    pub version: String,
    /// What it does: one line of at most 200 bytes.
    pub summary: String,
    /// Schema of its settings.
    pub schema: Schema,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Evaluates windows and returns recommendations.
    Recommender,
    /// Quotes prices of GPUs.
    Pricer,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Recommender, Self::Pricer];

    /// Its name in reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recommender => "recommender",
            Self::Pricer => "pricer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        assert_eq!(Kind::ALL.map(Kind::name), ["recommender", "pricer"]);
    }
}
