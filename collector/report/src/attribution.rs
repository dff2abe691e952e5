//! How the bill is divided among spans of the workload.

use serde::Serialize;

use super::value::Usd;

/// Spans of the workload, and what they cost. Spans + unsampled + unattributed = bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Attribution {
    /// Spans that left with their cost.
    pub priced: u64,
    /// Spans that left without, whose cost followed as an event.
    pub followed: u64,
    /// Spans that were chosen and have no cost.
    pub unpriced: u64,
    /// Spans without a sampling threshold: whether they represent others is unknown.
    pub of_unknown_sampling: u64,
    /// What spans cost.
    pub spans_usd: Usd,
    /// What requests cost whose spans were not sampled, which sampled ones represent.
    pub unsampled_usd: Usd,
    /// What no span has.
    pub unattributed_usd: Usd,
}
