//! Questions about sizes: memory, number of GPUs, batches, workloads on a GPU.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use phasemeter_plan::units::{Count, PerSecond, Ratio, Size, Span};

use super::common::{OutputArgs, PlanPriceArgs};
use super::values::{Precision, WorkloadArg, range};

/// `phasemeter plan memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Parameters of the model, like 7B: of a mixture of experts, all of them.
    #[arg(long, value_name = "COUNT")]
    pub params: Count,

    /// Of a mixture of experts, the parameters that a token uses.
    #[arg(long, value_name = "COUNT")]
    pub active_params: Option<Count>,

    /// Inference instead of training.
    #[arg(long)]
    pub inference: bool,

    /// Precision of the weights.
    #[arg(long, value_enum, default_value = "bf16")]
    pub precision: Precision,

    /// Precision of the gradients [default: that of the weights, at least 16 bits].
    #[arg(long, value_enum)]
    pub gradient_precision: Option<Precision>,

    /// Optimizer.
    #[arg(long, value_enum, default_value = "adam")]
    pub optimizer: Optimizer,

    /// Precision of the optimizer's states.
    #[arg(long, value_enum, default_value = "fp32")]
    pub state_precision: Precision,

    /// The optimizer keeps a copy of the weights in FP32.
    #[arg(long)]
    pub master: bool,

    /// LoRA: parameters of the adapters, which alone are trained, relative to all others, like 1%. With --precision int4
    /// it is QLoRA.
    #[arg(long, value_name = "PERCENT", conflicts_with = "inference")]
    pub trainable: Option<Ratio>,

    /// Activations of a batch, lowest and highest estimate, like 5GB-20GB; for inference the KV cache.
    #[arg(long, value_name = "SIZE[-SIZE]", value_parser = range)]
    pub activations: Option<(Size, Size)>,

    /// Compute activations again in the backward pass: all but the inputs of layers [if no value is given], or a part.
    #[arg(long, value_enum, value_name = "EXTENT", num_args = 0..=1, default_missing_value = "full")]
    pub checkpointing: Option<CheckpointingExtent>,

    /// Attention stores no scores, as FlashAttention.
    #[arg(long, requires = "layers")]
    pub flash_attention: bool,

    /// Layers of the transformer.
    #[arg(long, value_name = "N", requires_all = ["hidden", "heads"])]
    pub layers: Option<Count>,

    /// Width of a layer.
    #[arg(long, value_name = "N", requires = "layers")]
    pub hidden: Option<Count>,

    /// Attention heads.
    #[arg(long, value_name = "N", requires = "layers")]
    pub heads: Option<Count>,

    /// Heads with keys and values of their own, as of grouped-query attention [default: all].
    #[arg(long, value_name = "N", requires = "layers")]
    pub kv_heads: Option<Count>,

    /// Width of a head [default: that of a layer ÷ heads].
    #[arg(long, value_name = "N", requires = "layers")]
    pub head_size: Option<Count>,

    /// Samples per step and GPU, or sequences at once.
    #[arg(long, value_name = "N", default_value = "1")]
    pub batch: Count,

    /// Tokens per sample.
    #[arg(long, value_name = "N")]
    pub sequence: Option<Count>,

    /// Precision of the KV cache.
    #[arg(long, value_enum, default_value = "fp16")]
    pub kv_precision: Precision,

    /// What the framework and its kernels need.
    #[arg(long, value_name = "SIZE", default_value = "0GB")]
    pub overhead: Size,

    /// Part of each GPU's memory to keep free [default: 10%].
    #[arg(long, value_name = "PERCENT")]
    pub headroom: Option<Ratio>,

    /// Show the largest value that fits: batch.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub solve: Option<Solve>,

    /// GPU model to consider, like `NVIDIA A10G`. Repeatable [default: all sizes of memory].
    #[arg(long = "gpu", value_name = "NAME")]
    pub gpus: Vec<String>,

    /// Report of a run of this model, for its measured peak.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// An optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Optimizer {
    /// Two states per weight.
    Adam,
    /// One state per weight.
    Momentum,
    /// No state.
    Sgd,
}

/// Which activations are computed again in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckpointingExtent {
    /// A part: 60% are kept.
    Partial,
    /// All but the inputs of layers.
    Full,
}

/// What to solve for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Solve {
    /// The largest batch.
    Batch,
}

/// `phasemeter plan capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// Demand at the peak: requests or tokens per second.
    #[arg(long, value_name = "PER_SECOND", required_unless_present_any = ["by_hour", "per_day"], conflicts_with_all = ["by_hour", "per_day"])]
    pub demand: Option<PerSecond>,

    /// Demand per second in equal parts of a day, like 20,5,80,400; without a list, that of the hours of
    /// --from.
    #[arg(long, value_name = "LIST", num_args = 0..=1, value_delimiter = ',', conflicts_with = "per_day")]
    pub by_hour: Option<Vec<PerSecond>>,

    /// Offline work per day, done in windows.
    #[arg(long, value_name = "COUNT", requires = "window")]
    pub per_day: Option<Count>,

    /// Length of a window, like 4h.
    #[arg(long, value_name = "TIME", requires = "per_day")]
    pub window: Option<Span>,

    /// Windows per day [default: as many as a day has].
    #[arg(long, value_name = "N", requires = "window")]
    pub windows: Option<u64>,

    /// Throughput of one GPU per second, in the unit of the demand [default: measured, with --from].
    #[arg(long, value_name = "PER_SECOND", required_unless_present = "from")]
    pub throughput: Option<PerSecond>,

    /// Part of a GPU's throughput to use at most; 100% for all of it.
    #[arg(long, value_name = "PERCENT")]
    pub target: Ratio,

    /// Additional demand to be ready for; 0% for none.
    #[arg(long, value_name = "PERCENT")]
    pub headroom: Ratio,

    /// GPUs in use today.
    #[arg(long, value_name = "N")]
    pub today: Option<u64>,

    /// GPU model, for its price.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Report of a run with --work, for the throughput.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub price: PlanPriceArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `phasemeter plan sharing`.
#[derive(Debug, Args)]
pub struct SharingArgs {
    /// GPU model, like `NVIDIA A100-SXM4-80GB` [default: that of --from].
    #[arg(long, value_name = "NAME", required_unless_present = "from")]
    pub gpu: Option<String>,

    /// A workload as measured alone on a GPU: name=chat,memory=8GiB,utilization=20%; count=3 for three
    /// alike. Repeatable [default: the GPUs of --from].
    #[arg(long = "workload", value_name = "KEY=VALUE,…")]
    pub workloads: Vec<WorkloadArg>,

    /// Part of each GPU's or instance's memory to keep free.
    #[arg(long, value_name = "PERCENT", default_value = "10%")]
    pub headroom: Ratio,

    /// The most utilization of workloads together, without MIG.
    #[arg(long, value_name = "PERCENT", default_value = "100%")]
    pub target: Ratio,

    /// GPUs in use today [default: one per workload].
    #[arg(long, value_name = "N")]
    pub today: Option<u64>,

    /// Divide the bill of a GPU among these MIG instances, like 3g.40gb,2g.20gb.
    #[arg(long, value_name = "PROFILES", value_delimiter = ',')]
    pub partition: Vec<String>,

    /// Report of a run, for model, memory and utilization of its GPUs.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub price: PlanPriceArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `phasemeter plan batching`.
#[derive(Debug, Args)]
pub struct BatchingArgs {
    /// Requests per second that arrive at one GPU [default: those of the busiest hour of --from].
    #[arg(long, value_name = "PER_SECOND", required_unless_present = "from")]
    pub rate: Option<PerSecond>,

    /// Latency that must not be exceeded, like 200ms.
    #[arg(long, value_name = "TIME")]
    pub budget: Span,

    /// Time of a batch, like 30ms.
    #[arg(long, value_name = "TIME")]
    pub batch_time: Span,

    /// Additional time per item of a batch.
    #[arg(long, value_name = "TIME")]
    pub item_time: Option<Span>,

    /// How long the batcher waits for more requests [default: 50ms].
    #[arg(long, value_name = "TIME")]
    pub wait: Option<Span>,

    /// The most requests in a batch [default: 32].
    #[arg(long, value_name = "N")]
    pub max_batch: Option<usize>,

    /// A batch size to reach.
    #[arg(long, value_name = "N")]
    pub wanted_batch: Option<u64>,

    /// Seed of the simulation. Equal seeds give equal results.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Report of a run with --work or --work-log, for the rate.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
}
