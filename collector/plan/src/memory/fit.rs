//! Whether memory fits a GPU, the largest batch that does, and the GPUs needed if it is sharded.

use crate::units::{Ratio, Size};

use super::model::{Part, total};

/// A GPU, or all GPUs of one size of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Model, or examples of models.
    pub name: String,
    /// Nominal memory.
    pub memory: Size,
}

/// How memory fits a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The GPU.
    pub candidate: Candidate,
    /// Memory without the headroom.
    pub usable: u64,
    /// Whether the lowest and the highest estimate fit.
    pub fits: Fits,
    /// The largest batch whose highest estimate fits; `None` if not even one sample does.
    pub largest_batch: Option<u64>,
    /// GPUs needed if all but what a batch needs is divided among them; `None` if the batch itself
    /// does not fit.
    pub sharded: Option<u64>,
}

/// Whether an estimate fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// The highest estimate does.
    Yes,
    /// Only the lowest does.
    Perhaps,
    /// Not even the lowest.
    No,
}

impl Fits {
    /// For tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Perhaps => "perhaps",
            Self::No => "no",
        }
    }
}

/// How parts for `batch` samples fit a GPU with this headroom.
#[must_use]
pub fn fit(candidate: &Candidate, parts: &[Part], batch: u64, headroom: Ratio) -> Fit {
    let kept = u128::from(1_000_000_u64.saturating_sub(headroom.ppm()));
    let usable = u128::from(candidate.memory.0) * kept / 1_000_000;
    let usable = u64::try_from(usable).unwrap_or_default();
    let (low, high) = total(parts);
    let fits = if high <= usable {
        Fits::Yes
    } else if low <= usable {
        Fits::Perhaps
    } else {
        Fits::No
    };
    let (per_batch, fixed): (Vec<_>, Vec<_>) =
        parts.iter().cloned().partition(|part| part.per_sample);
    let (per_batch, fixed) = (total(&per_batch).1, total(&fixed).1);
    Fit {
        candidate: candidate.clone(),
        usable,
        fits,
        largest_batch: largest_batch(usable, fixed, per_batch, batch),
        sharded: usable
            .checked_sub(per_batch)
            .filter(|&rest| rest > 0)
            .map(|rest| fixed.div_ceil(rest).max(1)),
    }
}

fn largest_batch(usable: u64, fixed: u64, per_batch: u64, batch: u64) -> Option<u64> {
    let free = u128::from(usable.checked_sub(fixed)?);
    let samples = (free * u128::from(batch)).checked_div(u128::from(per_batch))?;
    u64::try_from(samples).ok().filter(|&samples| samples > 0)
}
