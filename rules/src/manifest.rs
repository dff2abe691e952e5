//! What a policy says of itself, after it was checked.

use crate::schema::Schema;

/// What a policy says of itself.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// 1–64 of `a`–`z`, `0`–`9` and `-`, starting with a letter.
    pub name: String,
    /// For people: at most 32 visible characters.
    pub version: String,
    /// What it does, in one line.
    pub summary: String,
    /// The settings it takes.
    pub schema: Schema,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It advises.
    Recommender,
    /// It prices.
    Pricer,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Recommender, Self::Pricer];

    /// As it stands in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recommender => "recommender",
            Self::Pricer => "pricer",
        }
    }
}
