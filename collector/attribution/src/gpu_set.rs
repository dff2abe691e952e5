//! A set of GPUs.

use std::sync::Arc;

use crate::holder_keys::HolderKeys;

/// The GPUs that a span is charged for, by the numbers that [`crate::Attribution`] gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSet {
    /// All GPUs.
    All,
    /// Some, or a holder's parts of them. Spans of one resource share it, since many wait.
    Some(Arc<SomeGpus>),
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

/// Some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeGpus {
    gpus: Arc<[usize]>,
    /// Whose parts of them; `None` for all of them.
    holder: Option<HolderKeys>,
}
