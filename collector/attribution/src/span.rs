//! Spans that are to be priced.

use std::sync::Arc;

use phasemeter_meter::units::Timestamp;

use crate::adjusted_count::AdjustedCount;
use crate::holder_keys::HolderKeys;

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

/// The GPUs that a span is charged for, by the numbers that [`crate::Attribution`] gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSet {
    /// All GPUs.
    All,
    /// Some, or a holder's parts of them. Spans of one resource share it, since many wait.
    Some(Arc<SomeGpus>),
}

/// Some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeGpus {
    gpus: Arc<[usize]>,
    /// Whose parts of them; `None` for all of them.
    holder: Option<HolderKeys>,
}

impl GpuSet {
    /// These GPUs as a whole.
    #[must_use]
    pub fn listed(gpus: Arc<[usize]>) -> Self {
        Self::Some(Arc::new(SomeGpus { gpus, holder: None }))
    }

    /// What a holder pays of these GPUs.
    #[must_use]
    pub fn held(gpus: Arc<[usize]>, holder: HolderKeys) -> Self {
        Self::Some(Arc::new(SomeGpus { gpus, holder: Some(holder) }))
    }

    /// Those of it that fit, which usually are all.
    pub(crate) fn filtered(&self, fits: impl Fn(&usize) -> bool) -> Self {
        match self {
            Self::Some(some) if !some.gpus.iter().all(&fits) => {
                let gpus = some.gpus.iter().copied().filter(fits).collect();
                Self::Some(Arc::new(SomeGpus { gpus, holder: some.holder }))
            }
            _ => self.clone(),
        }
    }

    /// Those of it among the first `count` GPUs.
    pub fn among(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        let (all, listed) = match self.listed_gpus() {
            None => (0..count, &[][..]),
            Some(gpus) => (0..0, gpus),
        };
        all.chain(listed.iter().copied().filter(move |gpu| *gpu < count))
    }

    /// The GPUs; `None` for all.
    #[must_use]
    pub fn listed_gpus(&self) -> Option<&[usize]> {
        match self {
            Self::All => None,
            Self::Some(some) => Some(&some.gpus),
        }
    }

    /// The holder whose parts of the GPUs it is; `None` for all of them.
    #[must_use]
    pub fn holder(&self) -> Option<&HolderKeys> {
        match self {
            Self::All => None,
            Self::Some(some) => some.holder.as_ref(),
        }
    }

    /// Whether it is none, however many there are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed_gpus().is_some_and(<[usize]>::is_empty)
    }

    /// The most bytes of memory of its list.
    #[must_use]
    pub fn size(&self) -> usize {
        self.listed_gpus().map_or(0, |gpus| size_of_val(gpus) + size_of::<SomeGpus>())
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
