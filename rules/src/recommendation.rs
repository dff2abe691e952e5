//! What a recommender answers, after it was checked.
//!
//! This room must not know who said it, nor whether it is counted.

use std::collections::BTreeMap;

use crate::lever::Lever;

/// One piece of advice. Every bound named here has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Names the advice for machines: 1–64 of `a`–`z`, `0`–`9`, `.`, `_`, `-`.
    pub code: String,
    /// What it acts on.
    pub target: Target,
    /// By what means.
    pub lever: Lever,
    /// In a few words: one line of at most 120 bytes.
    pub title: String,
    /// What to do: at most 1,000 bytes.
    pub action: String,
    /// Why that helps here: at most 2,000 bytes.
    pub rationale: String,
    /// What it saves, of the bill of `gpus`.
    pub saving: Saving,
    /// How sure the policy is: 0–1.
    pub confidence: f64,
    /// The numbers it rests on: at most 32, all finite.
    pub evidence: BTreeMap<String, f64>,
    /// The GPUs it is for: at least one, each in the window, each once.
    pub gpus: Vec<String>,
}

/// Fractions of a bill: 0 ≤ low ≤ expected ≤ high ≤ 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saving {
    /// At least, if all goes badly.
    pub low: f64,
    /// What to count on.
    pub expected: f64,
    /// At most, if all goes well.
    pub high: f64,
}

/// What advice acts on: a pool of waste, or an axis of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The waste inside bouncing stretches.
    Starvation,
    /// The waste of idle seconds elsewhere.
    Idle,
    /// All other waste.
    Occupancy,
    /// What an hour costs.
    Rate,
    /// What an hour gets done.
    Throughput,
}

impl Target {
    /// As it stands in reports and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starvation => "starvation",
            Self::Idle => "idle",
            Self::Occupancy => "occupancy",
            Self::Rate => "rate",
            Self::Throughput => "throughput",
        }
    }
}
