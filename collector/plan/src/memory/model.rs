//! The memory of a model by part: weights, gradients, optimizer, and what a batch needs.

use crate::error::PlanError;
use crate::units::{Ratio, Size};

/// Bytes of an FP32 copy of a weight.
const MASTER_BITS: u64 = 32;

/// Bits of the weights of adapters at least: those of quantized weights are not.
const ADAPTER_BITS: u64 = 16;

/// A model and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Number of parameters: of a mixture of experts, all of them.
    pub parameters: u64,
    /// Of a mixture of experts, those that a token uses. They decide its speed, not its memory.
    pub active_parameters: Option<u64>,
    /// Training or inference.
    pub job: Job,
    /// Bits per weight.
    pub weight_bits: u64,
    /// Its layers, if known: activations and the KV cache follow from them.
    pub architecture: Option<Architecture>,
    /// Samples per step, or sequences at once.
    pub batch: u64,
    /// Tokens per sample, if known.
    pub sequence: Option<u64>,
    /// Whether attention keeps no scores, as FlashAttention.
    pub flash_attention: bool,
    /// Activations of the batch if given: the lowest and the highest estimate.
    pub activations: Option<(Size, Size)>,
    /// Bits per value of the KV cache.
    pub cache_bits: u64,
    /// What the framework and its kernels need.
    pub overhead: Size,
}

/// Training or inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Weights, gradients, optimizer and activations.
    Training {
        /// Bits per gradient.
        gradient_bits: u64,
        /// Values that the optimizer keeps per weight: two for Adam.
        states: u64,
        /// Bits of each.
        state_bits: u64,
        /// Whether the optimizer also keeps the weights in FP32.
        master: bool,
        /// Whether activations are computed again in the backward pass.
        checkpointing: Checkpointing,
        /// Of LoRA, the parameters of the adapters, which alone are trained, relative to all others. `None` if all
        /// weights are trained.
        adapters: Option<Ratio>,
    },
    /// Weights and KV cache.
    Inference,
}

/// Which activations are computed again in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpointing {
    /// None.
    No,
    /// Some: 60% remain.
    Partial,
    /// All but the inputs of layers.
    Full,
}

/// The layers of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Number of layers.
    pub layers: u64,
    /// Width of a layer.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Heads with keys and values of their own.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_size: u64,
}

/// What a part of the memory is. It decides how GPUs divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Weights, also those of adapters.
    Weights,
    /// Gradients.
    Gradients,
    /// What the optimizer keeps.
    States,
    /// What a batch needs: activations or KV cache.
    Batch,
    /// What each GPU needs.
    Overhead,
}

/// One part of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// The lowest estimate in bytes.
    pub low: u64,
    /// The highest estimate in bytes.
    pub high: u64,
    /// What it is.
    pub kind: PartKind,
    /// In symbols.
    pub symbols: &'static str,
    /// With the numbers put in.
    pub numbers: String,
}

impl Model {
    /// The parts of its memory.
    ///
    /// # Errors
    /// Returns an error if a part does not follow from what is given.
    pub fn parts(&self) -> Result<Vec<Part>, PlanError> {
        let mut parts = vec![self.weights()?];
        match self.job {
            Job::Training { gradient_bits, states, state_bits, master, adapters, .. } => {
                if adapters.is_some() {
                    let bits = self.weight_bits.max(ADAPTER_BITS);
                    let symbols = "trained parameters × bytes per weight";
                    parts.push(self.part("adapters", PartKind::Weights, (1, bits), symbols)?);
                }
                if states > 0 {
                    let symbols = "states × trained parameters × bytes per state";
                    let bits = (states, state_bits);
                    parts.push(self.part("optimizer", PartKind::States, bits, symbols)?);
                }
                if master {
                    let symbols = "trained parameters × bytes of FP32";
                    let bits = (1, MASTER_BITS);
                    parts.push(self.part("master weights", PartKind::States, bits, symbols)?);
                }
                let symbols = "trained parameters × bytes per gradient";
                let bits = (1, gradient_bits);
                parts.push(self.part("gradients", PartKind::Gradients, bits, symbols)?);
                parts.push(self.activations()?);
            }
            Job::Inference => parts.push(self.cache()?),
        }
        if self.overhead.0 > 0 {
            let (bytes, numbers) = (self.overhead.0, self.overhead.to_string());
            parts.push(Part {
                name: "overhead",
                low: bytes,
                high: bytes,
                kind: PartKind::Overhead,
                symbols: "as given",
                numbers,
            });
        }
        Ok(parts)
    }

    /// The parameters that are trained, and how they follow.
    fn trained(&self) -> (u64, String) {
        let all = crate::format::count(self.parameters);
        let Job::Training { adapters: Some(share), .. } = self.job else {
            return (self.parameters, all);
        };
        let trained = u128::from(self.parameters) * u128::from(share.ppm()) / 1_000_000;
        (u64::try_from(trained).unwrap_or(u64::MAX), format!("{all} × {share}"))
    }

    fn weights(&self) -> Result<Part, PlanError> {
        let bits = self.weight_bits;
        let bytes = self.parameters.checked_mul(bits).map(|bits| bits.div_ceil(8));
        let bytes = bytes.ok_or_else(|| self.too_large())?;
        Ok(Part {
            name: "weights",
            low: bytes,
            high: bytes,
            kind: PartKind::Weights,
            symbols: "parameters × bytes per weight",
            numbers: format!("{} × {}", crate::format::count(self.parameters), in_bytes(bits)),
        })
    }

    /// A part with so many values of so many bits for each trained parameter.
    fn part(
        &self,
        name: &'static str,
        kind: PartKind,
        (values, bits): (u64, u64),
        symbols: &'static str,
    ) -> Result<Part, PlanError> {
        let (trained, numbers) = self.trained();
        let bits_of_all = product(&[trained, values, bits]).ok_or_else(|| self.too_large())?;
        let bytes = bits_of_all.div_ceil(8);
        let times = if values > 1 { format!("{values} × ") } else { String::new() };
        let numbers = format!("{times}{numbers} × {}", in_bytes(bits));
        Ok(Part { name, low: bytes, high: bytes, kind, symbols, numbers })
    }

    pub(super) fn too_large(&self) -> PlanError {
        let fix = "check the number of parameters, the batch and the sequence";
        PlanError::invalid("params", self.parameters, "the memory exceeds 18 EB", fix)
    }
}

/// `2 B`.
pub(super) fn in_bytes(bits: u64) -> String {
    format!("{} B", crate::format::number(bits as f64 / 8.0))
}

pub(super) fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1_u64, |product, &factor| product.checked_mul(factor))
}

/// The sum of the lowest and of the highest estimates.
#[must_use]
pub fn total(parts: &[Part]) -> (u64, u64) {
    let sum = |bytes: fn(&Part) -> u64| parts.iter().map(bytes).fold(0, u64::saturating_add);
    (sum(|part| part.low), sum(|part| part.high))
}
