//! `memory`: what a model needs, which GPUs it fits, and what makes it fit a smaller one.
//!
//! GB are powers of ten, as of model files; GiB are powers of two, as of GPUs.

mod batch;
mod fit;
mod levers;
mod model;
mod sharding;
mod worksheet;

pub use fit::{Candidate, Fit, Fits, Needed, fit};
pub use levers::{Lever, levers};
pub use model::{Architecture, Checkpointing, Job, Model, Part, PartKind, total};
pub use sharding::{Split, Stage, data_parallel, divided, inference};

use crate::error::PlanError;
use crate::units::{Ratio, Size};

/// The question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The model.
    pub model: Model,
    /// GPUs that it may run on.
    pub candidates: Vec<Candidate>,
    /// Part of each GPU's memory to keep free.
    pub headroom: Ratio,
    /// Whether the headroom was given.
    pub headroom_given: bool,
    /// The largest batch that fits is wanted.
    pub solve_batch: bool,
    /// Peak of a measured run of this model, if known.
    pub measured_peak: Option<Size>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    request: Request,
    /// The parts.
    pub parts: Vec<Part>,
    /// The lowest and the highest estimate in bytes.
    pub total: (u64, u64),
    /// One entry per candidate.
    pub fits: Vec<Fit>,
    /// What would reduce the memory.
    pub levers: Vec<Lever>,
}

impl Request {
    /// Computes the memory.
    ///
    /// # Errors
    /// Returns an error if a value is missing or out of range.
    pub fn compute(self) -> Result<Memory, PlanError> {
        let fix = "give less than 100%, like 10%";
        if self.headroom >= Ratio::ONE {
            return Err(PlanError::invalid("headroom", self.headroom, "nothing is left", fix));
        }
        if let Some(Architecture { heads, kv_heads, .. }) = self.model.architecture
            && !heads.is_multiple_of(kv_heads)
        {
            let problem = format!("{kv_heads} KV heads do not divide {heads} heads");
            let fix = "give the heads and KV heads of the model's configuration";
            return Err(PlanError::invalid("kv-heads", kv_heads, problem, fix));
        }
        if let Some(active) = self.model.active_parameters.filter(|it| *it > self.model.parameters)
        {
            let fix = "give all parameters as --params, and those of a token as --active-params";
            let problem = "more than all parameters";
            return Err(PlanError::invalid("active-params", active, problem, fix));
        }
        if let Some((low, high)) = self.model.activations
            && low > high
        {
            let fix = "give the lower value first";
            let value = format!("{low}-{high}");
            return Err(PlanError::invalid("activations", value, "the range is reversed", fix));
        }
        let parts = self.model.parts()?;
        let fits = self.candidates.iter();
        let fits = fits.map(|it| fit(it, &self.model, &parts, self.headroom)).collect();
        let levers = levers(&self.model)?;
        Ok(Memory { total: total(&parts), fits, levers, parts, request: self })
    }
}
