//! What makes a model fit a smaller GPU, and what that costs in time.

use crate::error::PlanError;
use crate::units::Ratio;

use super::model::{Checkpointing, Job, Model, total};

/// Parameters of adapters that are proposed, relative to all others: more than usual ranks have.
const LORA: Ratio = Ratio::from_ppm(10_000);

const LORA_COST: &str = "trains adapters alone; compare quality";

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
    let Job::Training { gradient_bits, states, state_bits, master, checkpointing, adapters } =
        model.job
    else {
        return Vec::new();
    };
    let with = |job| Model { job, ..model.clone() };
    let optimizer = |bits: u64| Job::Training {
        gradient_bits,
        states,
        state_bits: state_bits.min(bits),
        master,
        checkpointing,
        adapters,
    };
    let recompute = |checkpointing| Job::Training {
        gradient_bits,
        states,
        state_bits,
        master,
        checkpointing,
        adapters,
    };
    let lora = |weight_bits| Model {
        weight_bits,
        ..with(Job::Training {
            gradient_bits,
            states,
            state_bits,
            master,
            checkpointing,
            adapters: adapters.or(Some(LORA)),
        })
    };
    let without_master =
        Job::Training { gradient_bits, states, state_bits, master: false, checkpointing, adapters };
    let mut changes = vec![
        ("LoRA on 1% of the weights", lora(model.weight_bits), LORA_COST),
        ("QLoRA: LoRA with weights in INT4", lora(model.weight_bits.min(4)), LORA_COST),
        (
            "full checkpointing",
            with(recompute(Checkpointing::Full)),
            "each step takes about 1.33 × as long",
        ),
        (
            "FlashAttention",
            Model { flash_attention: true, ..model.clone() },
            "none; usually faster",
        ),
        ("optimizer states in 8 bits", with(optimizer(8)), "hardly any time; compare the loss"),
        ("optimizer states in 16 bits", with(optimizer(16)), "hardly any time; compare the loss"),
        (
            "INT8 weights, 16-bit states",
            Model { weight_bits: model.weight_bits.min(8), ..with(optimizer(16)) },
            "depends on kernels; compare quality",
        ),
        ("no FP32 master weights", with(without_master), "none; BF16 needs stochastic rounding"),
    ];
    if checkpointing == Checkpointing::No {
        let cost = "each step takes 1.2–1.3 × as long";
        changes.push(("partial checkpointing", with(recompute(Checkpointing::Partial)), cost));
    }
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
