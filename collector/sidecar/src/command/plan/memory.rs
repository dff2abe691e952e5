//! The question of `phasemeter plan memory`.

use std::collections::BTreeMap;

use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_plan::error::PlanError;
use phasemeter_plan::memory::{Architecture, Candidate, Checkpointing, Job, Model, Request};
use phasemeter_plan::units::{Ratio, Size};

use super::super::error::CommandError;
use super::{lacks, measured};
use phasemeter_cli::{CheckpointingExtent, MemoryArgs, Optimizer, Precision};

/// Part of the memory that is kept free by default.
const HEADROOM: Ratio = Ratio::from_ppm(100_000);

/// Models listed per size of memory.
const EXAMPLES: usize = 2;

pub(super) fn request(args: &MemoryArgs) -> Result<Request, CommandError> {
    let weight_bits = args.precision.bits();
    let job = if args.inference {
        Job::Inference
    } else {
        Job::Training {
            gradient_bits: args.gradient_precision.map_or(weight_bits.max(16), Precision::bits),
            states: match args.optimizer {
                Optimizer::Adam => 2,
                Optimizer::Momentum => 1,
                Optimizer::Sgd => 0,
            },
            state_bits: args.state_precision.bits(),
            master: args.master,
            checkpointing: match args.checkpointing {
                None => Checkpointing::No,
                Some(CheckpointingExtent::Partial) => Checkpointing::Partial,
                Some(CheckpointingExtent::Full) => Checkpointing::Full,
            },
            adapters: args.trainable,
        }
    };
    let architecture = architecture(args)?;
    let report = measured(args.from.as_deref())?;
    let measured_peak = match &report {
        Some(report) => Some(Size(report.peak_bytes().ok_or_else(|| {
            let fix = "record the column memory.used";
            lacks(args.from.as_deref(), "memory in use", fix)
        })?)),
        None => None,
    };
    Ok(Request {
        model: Model {
            parameters: args.params.0,
            active_parameters: args.active_params.map(|it| it.0),
            job,
            weight_bits,
            architecture,
            batch: args.batch.0,
            sequence: args.sequence.map(|it| it.0),
            flash_attention: args.flash_attention,
            activations: args.activations,
            cache_bits: args.kv_precision.bits(),
            overhead: args.overhead,
        },
        candidates: candidates(&args.gpus)?,
        headroom: args.headroom.unwrap_or(HEADROOM),
        headroom_given: args.headroom.is_some(),
        solve_batch: args.solve.is_some(),
        measured_peak,
    })
}

/// The layers, if they are given. Heads divide a layer, unless their width is given.
fn architecture(args: &MemoryArgs) -> Result<Option<Architecture>, PlanError> {
    let shape = args.layers.zip(args.hidden).zip(args.heads);
    let Some(((layers, hidden), heads)) = shape else { return Ok(None) };
    let head_size = match args.head_size {
        Some(size) => size.0,
        None if hidden.0.is_multiple_of(heads.0) => hidden.0 / heads.0,
        None => {
            let problem = format!("{} heads do not divide it", heads.0);
            let fix = "give the width of a head as --head-size";
            return Err(PlanError::invalid("hidden", hidden, problem, fix));
        }
    };
    Ok(Some(Architecture {
        layers: layers.0,
        hidden: hidden.0,
        heads: heads.0,
        kv_heads: args.kv_heads.unwrap_or(heads).0,
        head_size,
    }))
}

/// The named GPUs, else one entry per size of memory.
fn candidates(names: &[String]) -> Result<Vec<Candidate>, CommandError> {
    if names.is_empty() {
        let mut sizes: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for specs in GpuSpecs::all() {
            let Some(memory) = specs.memory else { continue };
            sizes.entry(memory.get()).or_default().push(specs.model);
        }
        let candidate = |(memory, models): (u64, Vec<&str>)| {
            // The newest models are the last.
            let examples: Vec<_> = models.iter().rev().take(EXAMPLES).map(|it| short(it)).collect();
            let more = models.len().saturating_sub(EXAMPLES);
            let more = if more > 0 { format!(", {more} more") } else { String::new() };
            Candidate { name: examples.join(", ") + &more, memory: Size(memory) }
        };
        return Ok(sizes.into_iter().map(candidate).collect());
    }
    let each =
        names.iter().map(|name| Ok(Candidate { name: name.clone(), memory: memory_of(name)? }));
    each.collect()
}

/// The memory of a model.
pub(super) fn memory_of(model: &str) -> Result<Size, PlanError> {
    let memory = specs(model)?.memory.map(|memory| Size(memory.get()));
    memory.ok_or_else(|| {
        PlanError::invalid("gpu", model, "its memory is unknown", "name another GPU")
    })
}

/// The specifications of a model.
pub(super) fn specs(model: &str) -> Result<GpuSpecs, PlanError> {
    GpuSpecs::of(model).ok_or_else(|| {
        let lower = model.to_ascii_lowercase();
        let similar = |specs: &GpuSpecs| specs.model.to_ascii_lowercase().contains(&lower);
        let similar: Vec<_> = GpuSpecs::all().filter(similar).map(|specs| specs.model).collect();
        let fix = if similar.is_empty() || lower.is_empty() {
            "use the name that nvidia-smi -L shows".to_owned()
        } else {
            format!("use {}", similar.join(" or "))
        };
        PlanError::invalid("gpu", model, "unknown GPU model", fix)
    })
}

fn short(model: &str) -> &str {
    model.trim_start_matches("NVIDIA ")
}
