//! Whether memory fits a GPU, the largest batch that does, and the GPUs needed if they divide it.

use crate::units::{Ratio, Size};

use super::model::{Job, Model, Part, PartKind, total};
use super::sharding::{self, Split, Stage};

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
    /// GPUs needed if they divide the memory.
    pub needed: Needed,
}

/// GPUs needed if they divide the memory; `None` if what each must have does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// To train with each stage of ZeRO.
    Training([Option<u64>; 3]),
    /// To answer requests, if the layers are known.
    Layers {
        /// The fewest.
        fewest: Option<Split>,
        /// If heads alone are divided, within a node.
        tensor: Option<Split>,
    },
    /// To answer requests, if all is divided evenly.
    Evenly(Option<u64>),
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

/// How the parts of a model fit a GPU with this headroom.
#[must_use]
pub fn fit(candidate: &Candidate, model: &Model, parts: &[Part], headroom: Ratio) -> Fit {
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
        parts.iter().cloned().partition(|part| part.kind == PartKind::Batch);
    let (per_batch, fixed) = (total(&per_batch).1, total(&fixed).1);
    Fit {
        candidate: candidate.clone(),
        usable,
        fits,
        largest_batch: largest_batch(usable, fixed, per_batch, model.batch),
        needed: needed(model, parts, usable),
    }
}

fn needed(model: &Model, parts: &[Part], usable: u64) -> Needed {
    match (model.job, model.architecture) {
        (Job::Training { .. }, _) => {
            let of = |stage| sharding::data_parallel(model, parts, stage, usable);
            Needed::Training(Stage::ALL.map(of))
        }
        (Job::Inference, Some(architecture)) => {
            let within = |groups| sharding::inference(architecture, parts, usable, groups);
            Needed::Layers { fewest: within(u64::MAX), tensor: within(1) }
        }
        (Job::Inference, None) => {
            let free = usable.checked_sub(model.overhead.0).filter(|&free| free > 0);
            let divided = total(parts).1.saturating_sub(model.overhead.0);
            Needed::Evenly(free.map(|free| divided.div_ceil(free).max(1)))
        }
    }
}

fn largest_batch(usable: u64, fixed: u64, per_batch: u64, batch: u64) -> Option<u64> {
    let free = u128::from(usable.checked_sub(fixed)?);
    let samples = (free * u128::from(batch)).checked_div(u128::from(per_batch))?;
    u64::try_from(samples).ok().filter(|&samples| samples > 0)
}
