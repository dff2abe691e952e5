//! What makes a model fit a smaller GPU, and what that costs in time.

use crate::error::PlanError;

use super::model::{Job, Model, total};

/// One change and its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lever {
    /// What is changed.
    pub name: &'static str,
    /// The highest estimate of all memory after it.
    pub high: u64,
    /// What it costs.
    pub cost: &'static str,
}

/// All changes that reduce memory, each alone, largest first.
///
/// # Errors
/// Returns an error if a part of the memory cannot be computed.
pub fn levers(model: &Model) -> Result<Vec<Lever>, PlanError> {
    let before = total(&model.parts()?).1;
    let changes = match model.job {
        Job::Training { .. } => training(model),
        Job::Inference => inference(model),
    };
    let mut levers = Vec::new();
    for (name, changed, cost) in changes {
        let high = total(&changed.parts()?).1;
        if high < before {
            levers.push(Lever { name, high, cost });
        }
    }
    levers.sort_by_key(|lever| lever.high);
    Ok(levers)
}

type Change = (&'static str, Model, &'static str);

fn training(model: &Model) -> Vec<Change> {
    let Job::Training { gradient_bits, states, state_bits, master, checkpointing } = model.job
    else {
        return Vec::new();
    };
    let job = |state_bits, master, checkpointing| Job::Training {
        gradient_bits,
        states,
        state_bits,
        master,
        checkpointing,
    };
    let with = |job| Model { job, ..model.clone() };
    let mut changes = vec![
        (
            "activation checkpointing",
            with(job(state_bits, master, true)),
            "each step takes 1.2–1.3 × as long",
        ),
        (
            "optimizer states in 8 bits",
            with(job(state_bits.min(8), master, checkpointing)),
            "hardly any time; compare the loss",
        ),
        (
            "optimizer states in 16 bits",
            with(job(state_bits.min(16), master, checkpointing)),
            "hardly any time; compare the loss",
        ),
        (
            "INT8 weights, 16-bit states",
            Model {
                weight_bits: model.weight_bits.min(8),
                ..with(job(state_bits.min(16), master, checkpointing))
            },
            "depends on kernels; compare quality",
        ),
        (
            "no FP32 master weights",
            with(job(state_bits, false, checkpointing)),
            "none; BF16 needs stochastic rounding",
        ),
    ];
    changes.extend(halved(model));
    changes
}

fn inference(model: &Model) -> Vec<Change> {
    let weights = |weight_bits| Model { weight_bits, ..model.clone() };
    let mut changes = vec![
        ("weights in 8 bits", weights(model.weight_bits.min(8)), "often faster; compare quality"),
        ("weights in 4 bits", weights(model.weight_bits.min(4)), "often faster; compare quality"),
        (
            "KV cache in 8 bits",
            Model { cache_bits: model.cache_bits.min(8), ..model.clone() },
            "hardly any time; compare quality",
        ),
    ];
    changes.extend(halved(model));
    changes
}

/// With half the batch. Given activations are those of the whole batch.
fn halved(model: &Model) -> Option<Change> {
    if model.batch < 2 {
        return None;
    }
    let batch = model.batch / 2;
    let part = |size: crate::units::Size| {
        let bytes = u128::from(size.0) * u128::from(batch) / u128::from(model.batch);
        crate::units::Size(u64::try_from(bytes).unwrap_or(size.0))
    };
    let activations = model.activations.map(|(low, high)| (part(low), part(high)));
    let cost = match model.job {
        Job::Training { .. } => "twice the steps; accumulate gradients",
        Job::Inference => "half the throughput at worst",
    };
    Some(("half the batch", Model { batch, activations, ..model.clone() }, cost))
}
