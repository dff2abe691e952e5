//! The memory of a model by part: weights, gradients, optimizer, activations, KV cache.

use crate::error::PlanError;
use crate::units::{Ratio, Size};

/// Bytes of an FP32 copy of a weight.
const MASTER_BITS: u64 = 32;

/// How much of the activations remains with checkpointing.
pub const CHECKPOINTED: Ratio = Ratio::from_ppm(600_000);

/// A model and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Number of parameters.
    pub parameters: u64,
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
        checkpointing: bool,
    },
    /// Weights and KV cache.
    Inference,
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
    /// Whether it grows with the batch.
    pub per_sample: bool,
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
            Job::Training { gradient_bits, states, state_bits, master, .. } => {
                if states > 0 {
                    let numbers = format!("{states} × {}", self.per_weight(state_bits));
                    let bits = states * state_bits;
                    let symbols = "states × parameters × bytes per state";
                    parts.push(self.part("optimizer", bits, symbols, numbers)?);
                }
                if master {
                    let numbers = self.per_weight(MASTER_BITS);
                    let symbols = "parameters × bytes of FP32";
                    parts.push(self.part("master weights", MASTER_BITS, symbols, numbers)?);
                }
                let numbers = self.per_weight(gradient_bits);
                let symbols = "parameters × bytes per gradient";
                parts.push(self.part("gradients", gradient_bits, symbols, numbers)?);
                parts.push(self.activations()?);
            }
            Job::Inference => parts.push(self.cache()?),
        }
        if self.overhead.0 > 0 {
            let (bytes, numbers) = (self.overhead.0, self.overhead.to_string());
            parts.push(Part::of_model("overhead", bytes, "as given", numbers));
        }
        Ok(parts)
    }

    fn weights(&self) -> Result<Part, PlanError> {
        let numbers = self.per_weight(self.weight_bits);
        self.part("weights", self.weight_bits, "parameters × bytes per weight", numbers)
    }

    /// A part that is proportional to the parameters.
    fn part(
        &self,
        name: &'static str,
        bits: u64,
        symbols: &'static str,
        numbers: String,
    ) -> Result<Part, PlanError> {
        let bytes = self.parameters.checked_mul(bits).map(|bits| bits.div_ceil(8));
        let bytes = bytes.ok_or_else(|| self.too_large())?;
        Ok(Part::of_model(name, bytes, symbols, numbers))
    }

    fn per_weight(&self, bits: u64) -> String {
        let parameters = crate::format::count(self.parameters);
        format!("{parameters} × {} B", crate::format::number(bits as f64 / 8.0))
    }

    fn activations(&self) -> Result<Part, PlanError> {
        let Job::Training { checkpointing, .. } = self.job else { return self.cache() };
        let (symbols, numbers, low, high) = match (self.activations, self.shape()) {
            (Some(given), _) => return Ok(Part::given("activations", given).after(checkpointing)),
            (None, Some((Architecture { layers, hidden, heads, .. }, sequence))) => {
                let values = [self.batch, sequence, hidden, layers];
                let values = product(&values).ok_or_else(|| self.too_large())?;
                // Of attention, kernels that store no scores keep 34 bytes per value, others 5 bytes
                // more per head and token.
                let scores = product(&[5, heads, sequence, values / hidden]);
                let high = scores.and_then(|it| it.checked_add(values.checked_mul(34)?));
                let high = high.ok_or_else(|| self.too_large())?;
                (
                    "batch × sequence × hidden × layers × 34 B, and with stored attention scores + \
                     5 B × heads × batch × sequence² × layers",
                    format!(
                        "{} × {sequence} × {hidden} × {layers} × 34 B, + 5 B × {heads} × {} × \
                         {sequence}² × {layers}",
                        self.batch, self.batch
                    ),
                    values.saturating_mul(34),
                    high,
                )
            }
            (None, None) => {
                return Err(PlanError::missing(
                    "activations",
                    "they depend on the model's layers, and are often the largest unknown",
                    "give a range like 5GB-20GB, or --layers, --hidden, --heads and --sequence",
                ));
            }
        };
        let part = Part { name: "activations", low, high, per_sample: true, symbols, numbers };
        Ok(part.after(checkpointing))
    }

    fn cache(&self) -> Result<Part, PlanError> {
        let Some((Architecture { layers, hidden, heads, kv_heads }, sequence)) = self.shape()
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
        let head = hidden / heads;
        let values = product(&[2, layers, kv_heads, head, sequence, self.batch, self.cache_bits]);
        let bytes = values.ok_or_else(|| self.too_large())?.div_ceil(8);
        Ok(Part {
            name: "KV cache",
            low: bytes,
            high: bytes,
            per_sample: true,
            symbols: "2 × layers × KV heads × head size × tokens × sequences × bytes",
            numbers: format!(
                "2 × {layers} × {kv_heads} × {head} × {sequence} × {} × {} B",
                self.batch,
                crate::format::number(self.cache_bits as f64 / 8.0)
            ),
        })
    }

    fn shape(&self) -> Option<(Architecture, u64)> {
        self.architecture.zip(self.sequence)
    }

    fn too_large(&self) -> PlanError {
        let fix = "check the number of parameters, the batch and the sequence";
        PlanError::invalid("params", self.parameters, "the memory exceeds 18 EB", fix)
    }
}

fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1_u64, |product, &factor| product.checked_mul(factor))
}

impl Part {
    /// What does not grow with the batch.
    const fn of_model(
        name: &'static str,
        bytes: u64,
        symbols: &'static str,
        numbers: String,
    ) -> Self {
        Self { name, low: bytes, high: bytes, per_sample: false, symbols, numbers }
    }

    /// What a batch needs, as given.
    fn given(name: &'static str, (low, high): (Size, Size)) -> Self {
        let (symbols, numbers) = ("lowest to highest, as given", format!("{low} to {high}"));
        Self { name, low: low.0, high: high.0, per_sample: true, symbols, numbers }
    }

    /// With activation checkpointing, if it is used. Only activations shrink, not the total.
    fn after(mut self, checkpointing: bool) -> Self {
        if !checkpointing {
            return self;
        }
        let reduced = |bytes: u64| {
            let kept = u128::from(bytes) * u128::from(CHECKPOINTED.ppm()) / 1_000_000;
            u64::try_from(kept).unwrap_or(bytes)
        };
        (self.low, self.high) = (reduced(self.low), reduced(self.high));
        self.numbers = format!("({}) × 0.6 with checkpointing", self.numbers);
        self
    }
}

/// The sum of the lowest and of the highest estimates.
#[must_use]
pub fn total(parts: &[Part]) -> (u64, u64) {
    let sum = |bytes: fn(&Part) -> u64| parts.iter().map(bytes).fold(0, u64::saturating_add);
    (sum(|part| part.low), sum(|part| part.high))
}
