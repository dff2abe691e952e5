//! The memory that a batch needs: activations, or the KV cache.

use crate::error::PlanError;
use crate::units::Size;

use super::model::{Architecture, Checkpointing, Job, Model, Part, PartKind, in_bytes, product};

/// Percent of the activations that remain if a part of them is computed again.
const PARTLY_KEPT: u64 = 60;

/// Bytes per value of a layer's input, in 16 bits.
const INPUT_BYTES: u64 = 2;

/// Bytes per value that a layer keeps for its backward pass, without the scores of attention.
const LAYER_BYTES: u64 = 34;

/// Bytes per score of attention.
const SCORE_BYTES: u64 = 5;

impl Model {
    pub(super) fn activations(&self) -> Result<Part, PlanError> {
        let Job::Training { checkpointing, .. } = self.job else { return self.cache() };
        match (self.activations, self.shape()) {
            (Some(given), _) => Ok(Part::given("activations", given).after(checkpointing)),
            (None, Some((architecture, sequence))) => {
                let part = self.activations_of(architecture, sequence, checkpointing);
                part.ok_or_else(|| self.too_large())
            }
            (None, None) => Err(PlanError::missing(
                "activations",
                "they depend on the model's layers, and are often the largest unknown",
                "give a range like 5GB-20GB, or --layers, --hidden, --heads and --sequence",
            )),
        }
    }

    /// Kernels that store no scores of attention keep 34 bytes per value of a layer, others 5 bytes more per head and
    /// pair of tokens. `None` if it exceeds 18 EB.
    fn activations_of(
        &self,
        Architecture { layers, hidden, heads, .. }: Architecture,
        sequence: u64,
        checkpointing: Checkpointing,
    ) -> Option<Part> {
        let batch = self.batch;
        // Of a layer.
        let values = product(&[batch, sequence, hidden])?;
        let scores = product(&[SCORE_BYTES, heads, batch, sequence, sequence])?;
        let is_full = checkpointing == Checkpointing::Full;
        let low = if is_full {
            let inputs = product(&[values, layers, INPUT_BYTES])?;
            inputs.checked_add(values.checked_mul(LAYER_BYTES)?)?
        } else {
            product(&[values, layers, LAYER_BYTES])?
        };
        // Recomputed layer by layer, the scores of one are kept at a time.
        let layers_with_scores = if is_full { 1 } else { layers };
        let stored =
            if self.flash_attention { 0 } else { scores.checked_mul(layers_with_scores)? };
        let of_scores = format!("5 B × {heads} × {batch} × {sequence}²");
        let (symbols, numbers) = match (is_full, self.flash_attention) {
            (false, true) => (
                "batch × sequence × hidden × layers × 34 B",
                format!("{batch} × {sequence} × {hidden} × {layers} × 34 B"),
            ),
            (false, false) => (
                "batch × sequence × hidden × layers × 34 B, and with stored attention scores + \
                 5 B × heads × batch × sequence² × layers",
                format!(
                    "{batch} × {sequence} × {hidden} × {layers} × 34 B, + {of_scores} × {layers}"
                ),
            ),
            (true, true) => (
                "batch × sequence × hidden × (layers × 2 B + 34 B)",
                format!("{batch} × {sequence} × {hidden} × ({layers} × 2 B + 34 B)"),
            ),
            (true, false) => (
                "batch × sequence × hidden × (layers × 2 B + 34 B), and with stored attention \
                 scores + 5 B × heads × batch × sequence²",
                format!("{batch} × {sequence} × {hidden} × ({layers} × 2 B + 34 B), + {of_scores}"),
            ),
        };
        let high = low.checked_add(stored)?;
        let kind = PartKind::Batch;
        let part = Part { name: "activations", low, high, kind, symbols, numbers };
        Some(if is_full { part } else { part.after(checkpointing) })
    }

    pub(super) fn cache(&self) -> Result<Part, PlanError> {
        let Some((Architecture { layers, kv_heads, head_size, .. }, sequence)) = self.shape()
        else {
            if let Some(given) = self.activations {
                return Ok(Part::given("KV cache", given));
            }
            return Err(PlanError::missing(
                "layers",
                "the KV cache grows with layers, hidden size and tokens",
                "give --layers, --hidden, --heads and --sequence, or --activations for what \
                 a batch needs",
            ));
        };
        let batch = self.batch;
        let values = product(&[2, layers, kv_heads, head_size, sequence, batch, self.cache_bits]);
        let bytes = values.ok_or_else(|| self.too_large())?.div_ceil(8);
        Ok(Part {
            name: "KV cache",
            low: bytes,
            high: bytes,
            kind: PartKind::Batch,
            symbols: "2 × layers × KV heads × head size × tokens × sequences × bytes",
            numbers: format!(
                "2 × {layers} × {kv_heads} × {head_size} × {sequence} × {batch} × {}",
                in_bytes(self.cache_bits)
            ),
        })
    }

    fn shape(&self) -> Option<(Architecture, u64)> {
        self.architecture.zip(self.sequence)
    }
}

impl Part {
    /// What a batch needs, as given.
    fn given(name: &'static str, (low, high): (Size, Size)) -> Self {
        let (symbols, numbers) = ("lowest to highest, as given", format!("{low} to {high}"));
        Self { name, low: low.0, high: high.0, kind: PartKind::Batch, symbols, numbers }
    }

    /// With activation checkpointing, if it is used. Only activations shrink, not the total.
    fn after(mut self, checkpointing: Checkpointing) -> Self {
        let (kept, of, factor) = match checkpointing {
            Checkpointing::No => return self,
            Checkpointing::Partial => (PARTLY_KEPT, 100, "0.6"),
            Checkpointing::Full => (INPUT_BYTES, LAYER_BYTES, "2/34"),
        };
        let reduced = |bytes: u64| {
            let kept = u128::from(bytes) * u128::from(kept) / u128::from(of);
            u64::try_from(kept).unwrap_or(bytes)
        };
        (self.low, self.high) = (reduced(self.low), reduced(self.high));
        self.numbers = format!("({}) × {factor} with checkpointing", self.numbers);
        self
    }
}
