//! Spans that are to be priced.

use phasemeter_meter::units::Timestamp;

pub use super::gpu_set::GpuSet;
use crate::adjusted_count::AdjustedCount;

/// The identity of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanKey {
    /// Its trace ID.
    pub trace: [u8; 16],
    /// Its span ID.
    pub span: [u8; 8],
}

impl SpanKey {
    /// The span with this ID in the same trace.
    #[must_use]
    pub const fn sibling(&self, span: [u8; 8]) -> Self {
        Self { trace: self.trace, span }
    }
}

/// A span of the workload that is to be priced.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenSpan {
    /// Its identity.
    pub key: SpanKey,
    /// The ID of its parent, chosen or not.
    pub parent: Option<[u8; 8]>,
    /// Start.
    pub from: Timestamp,
    /// End; `None` if it has not ended.
    pub to: Option<Timestamp>,
    /// Its part of shared time is this ÷ its duration. A missing, negative or non-finite weight counts
    /// as the mean of the others.
    pub weight: Option<f64>,
    /// The number of spans that it represents, which were active with it; `None` if unknown, which counts as
    /// one.
    pub adjusted_count: Option<AdjustedCount>,
    /// The GPUs that it is charged for.
    pub gpus: GpuSet,
}

/// Why a span is not priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RejectReason {
    /// A span of the same trace and ID is priced.
    #[error("the same span was received before")]
    Duplicate,
    /// It has no end.
    #[error("it has not ended")]
    NotEnded,
    /// It ends where it begins, or before.
    #[error("it has no duration")]
    NoDuration,
    /// It ends later than now.
    #[error("it ends in the future")]
    InFuture,
    /// All of its time has been divided, or is too long ago.
    #[error("the cost of its time is final")]
    Late,
    /// Too many spans wait.
    #[error("too many spans wait for their cost")]
    Full,
    /// Each request that it could leave in would have a copy of its resource and scope.
    #[error("its resource and scope are larger than 256 KiB")]
    TooLarge,
}
