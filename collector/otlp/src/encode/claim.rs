//! The time of GPUs that a request reports: a backend that accepts the request has this time, in a sum or
//! as a gap.

use phasemeter_meter::units::Timestamp;

use crate::request::Request;

/// Time of one GPU, in the time of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key of the GPU's identity.
    pub gpu: String,
    /// Start of the time. With cumulative sums, each claim of a run has the same start.
    pub from: Timestamp,
    /// End of the time.
    pub to: Timestamp,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimKind {
    /// The sums of time and cost have the time.
    Sums,
    /// Events report that the time is not billed.
    Gap,
}

/// Requests that leave together, because one would be too large, and what they claim once a backend has
/// accepted all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// The requests, in order.
    pub requests: Vec<Request>,
    /// What they claim, if anything.
    pub claims: Option<(ClaimKind, Vec<Claim>)>,
}
