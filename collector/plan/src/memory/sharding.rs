//! How many GPUs of one kind hold a model that they divide.
//!
//! Training divides what it keeps among GPUs that each compute batches of their own (ZeRO, FSDP). Inference divides the
//! layers and the heads, so its KV cache too.

use super::model::{Architecture, Model, Part, PartKind};

/// Maximum number of GPUs that divide heads: those of a node, since they exchange data in each layer.
const MOST_TENSOR: u64 = 8;

/// Layers whose weights FSDP gathers at a time: the one in use, and the next.
const GATHERED_LAYERS: u64 = 2;

/// What data-parallel GPUs divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// ZeRO-1: optimizer states.
    States,
    /// ZeRO-2: gradients, too.
    Gradients,
    /// ZeRO-3 and FSDP: weights, too.
    Weights,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Self; 3] = [Self::States, Self::Gradients, Self::Weights];

    /// Whether this part is divided.
    #[must_use]
    pub fn divides(self, kind: PartKind) -> bool {
        match kind {
            PartKind::States => true,
            PartKind::Gradients => self != Self::States,
            PartKind::Weights => self == Self::Weights,
            PartKind::Batch | PartKind::Overhead => false,
        }
    }
}

/// The parts of the highest estimate that GPUs divide, and those that each has.
#[must_use]
pub fn divided(model: &Model, parts: &[Part], stage: Stage) -> (u64, u64) {
    let sum = |is_divided: bool| {
        let some = parts.iter().filter(|part| stage.divides(part.kind) == is_divided);
        some.map(|part| part.high).fold(0, u64::saturating_add)
    };
    let gathered = match model.architecture {
        Some(Architecture { layers, .. }) if stage == Stage::Weights => {
            let of_weights = parts.iter().filter(|part| part.kind == PartKind::Weights);
            let weights = of_weights.map(|part| part.high).fold(0, u64::saturating_add);
            (weights / layers.max(1)).saturating_mul(GATHERED_LAYERS.min(layers))
        }
        _ => 0,
    };
    (sum(true), sum(false).saturating_add(gathered))
}

/// GPUs with so much usable memory that train together; `None` if what each must have does not fit.
#[must_use]
pub fn data_parallel(model: &Model, parts: &[Part], stage: Stage, usable: u64) -> Option<u64> {
    let (divided, each) = divided(model, parts, stage);
    match usable.checked_sub(each)? {
        0 if divided > 0 => None,
        free => Some(divided.div_ceil(free.max(1)).max(1)),
    }
}

/// How GPUs divide a model for inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// GPUs that divide the heads of each layer.
    pub tensor: u64,
    /// Groups of such GPUs that divide the layers.
    pub pipeline: u64,
}

impl Split {
    /// All GPUs.
    #[must_use]
    pub const fn gpus(self) -> u64 {
        self.tensor.saturating_mul(self.pipeline)
    }
}

/// The fewest GPUs of so much usable memory, and of equal numbers those with the most that divide heads, which answer
/// fastest. At most `most_pipeline` groups divide the layers. `None` if not even one layer fits.
#[must_use]
pub fn inference(
    architecture: Architecture,
    parts: &[Part],
    usable: u64,
    most_pipeline: u64,
) -> Option<Split> {
    let sizes = tensor_sizes(architecture);
    let splits = sizes.filter_map(|tensor| {
        let pipeline = groups(architecture, parts, usable, tensor)?;
        (pipeline <= most_pipeline).then_some(Split { tensor, pipeline })
    });
    splits.min_by_key(|split| (split.gpus(), split.pipeline))
}

/// Numbers of GPUs that divide the heads evenly. Heads of keys and values that are fewer are on several of them.
fn tensor_sizes(Architecture { heads, kv_heads, .. }: Architecture) -> impl Iterator<Item = u64> {
    (1..=MOST_TENSOR.min(heads)).filter(move |tensor| {
        let divides_keys = kv_heads.is_multiple_of(*tensor) || tensor.is_multiple_of(kv_heads);
        heads.is_multiple_of(*tensor) && divides_keys
    })
}

/// Groups that are needed if `tensor` GPUs divide the heads. A group has whole layers.
fn groups(
    Architecture { layers, kv_heads, .. }: Architecture,
    parts: &[Part],
    usable: u64,
    tensor: u64,
) -> Option<u64> {
    let sum = |kind: PartKind| {
        let some = parts.iter().filter(|part| part.kind == kind);
        some.map(|part| u128::from(part.high)).sum::<u128>()
    };
    let (layers, tensor) = (u128::from(layers.max(1)), u128::from(tensor));
    let kv_heads = u128::from(kv_heads.max(1));
    let weights = sum(PartKind::Weights).div_ceil(layers * tensor);
    let cache = sum(PartKind::Batch) * kv_heads.div_ceil(tensor);
    let layer = weights + cache.div_ceil(layers * kv_heads);
    let free = u128::from(usable).checked_sub(sum(PartKind::Overhead))?;
    let fitting = free.checked_div(layer).unwrap_or(layers).min(layers);
    let groups = layers.checked_div(fitting)? + u128::from(layers % fitting > 0);
    u64::try_from(groups).ok()
}
