//! The validated output of a recommender.
//!
//! Must not depend on which policy returned it, or on whether its saving is counted.

use std::collections::BTreeMap;

use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::recommendation;
pub use phasemeter_meter::savings::recommendation::{Saving, Target};

use crate::lever::Lever;

/// A recommendation. Every bound named here has been validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Stable identifier: 1–64 of `a`–`z`, `0`–`9`, `.`, `_`, `-`, starting with a letter.
    pub code: String,
    /// What it reduces.
    pub target: Target,
    /// The means.
    pub lever: Lever,
    /// Short title: one line of 1–120 bytes.
    pub title: String,
    /// What to do: 1–1,000 bytes.
    pub action: String,
    /// Why it helps here: 1–2,000 bytes.
    pub rationale: String,
    /// Expected saving, as fractions of the bill of `gpus`.
    pub saving: Saving,
    /// Confidence of the policy: 0–1.
    pub confidence: Fraction,
    /// Numbers that support it: at most 32, all finite.
    pub evidence: BTreeMap<String, f64>,
    /// IDs of the GPUs it applies to: at least one, all in the window, no duplicates.
    pub gpus: Vec<String>,
}

impl Recommendation {
    /// The part that savings are computed from. `policy` is the name of the policy.
    #[must_use]
    pub fn for_savings<'a>(&'a self, policy: &'a str) -> recommendation::Recommendation<'a> {
        let Self { ref code, target, saving, ref gpus, .. } = *self;
        recommendation::Recommendation { policy, code, target, saving, gpus }
    }
}
