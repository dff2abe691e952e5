//! Every number that decides what an action truly achieves, with its source or the word "assumption".
//!
//! Pairs are uniform distributions. They were written before the first result, and are not fitted to the
//! policies: a policy that promises something else is wrong here.
//!
//! Sources:
//! - Gao: Gao et al., "An Empirical Study on Low GPU Utilization of Deep Learning Jobs", ICSE 2024. 400
//!   jobs: 46.03% of the issues are data operations, 84.99% can be fixed with small changes.
//! - Mohan: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021. Jobs wait
//!   for reading and for preprocessing; better loading trains up to twice as fast on one server, as
//!   compared with DALI.
//! - McCandlish: McCandlish et al., "An Empirical Model of Large-Batch Training", 2018. Up to a critical
//!   size, doubling a batch costs hardly any more samples.
//! - CheckFreq: Mohan et al., "CheckFreq", FAST 2021. Pipelined checkpoints cost at most 3.5%.
//! - Recomputation: a step is one forward and two forward-sized backward passes; checkpointing of
//!   activations repeats the forward pass.

use crate::prng::Uniform;

// What fleets do. They decide which cases occur, and not what an action achieves.

/// Training, serving, interactive, batch. Assumption.
pub(crate) const KINDS: [f64; 4] = [0.40, 0.25, 0.15, 0.20];
/// Workloads whose owner declares their kind. Assumption.
pub(crate) const DECLARED: f64 = 0.9;
/// Batch work whose owner declares it interruptible. Assumption.
pub(crate) const INTERRUPTIBLE: f64 = 0.3;
/// On demand, reserved, owned. Assumption.
pub(crate) const PLANS: [f64; 3] = [0.85, 0.08, 0.07];
/// What limits a training job: input, small steps, little headroom, arithmetic. Input is as frequent as
/// data operations among the causes of low utilization (Gao), arithmetic is an assumption.
pub(crate) const LIMITS: [f64; 4] = [0.35, 0.30, 0.10, 0.25];
/// Training jobs that use all GPUs of their nodes. Assumption.
pub(crate) const USES_ALL: f64 = 0.7;
/// Training jobs that hang, of those that arithmetic limits. Assumption.
pub(crate) const HANGS: f64 = 0.08;

// Input.

/// Why input is late: too few workers with idle cores, preprocessing with all cores busy, storage, varying
/// time per batch, something else. The last is what small changes cannot fix (Gao); the shares of reading
/// and preprocessing are alike (Mohan), the rest is an assumption.
pub(crate) const INPUT_CAUSES: [f64; 5] = [0.37, 0.15, 0.25, 0.08, 0.15];
/// How many times as fast input is with more workers: idle cores per busy worker. Instances have 4 to 24
/// cores per GPU, and PyTorch's examples use 2 to 4 workers. Logarithmic; an assumption.
pub(crate) const MORE_WORKERS: Uniform = (1.5, 6.0);
/// The same, if storage is slow: more reads at a time. Assumption.
pub(crate) const MORE_READS: Uniform = (1.0, 1.6);
/// How many times as fast preprocessing is on the GPU. Assumption; DALI is the baseline of Mohan.
pub(crate) const DECODE_ON_GPU: Uniform = (1.3, 4.0);
/// GPU time that preprocessing on the GPU takes. Assumption.
pub(crate) const DECODE_COST: Uniform = (0.02, 0.15);
/// How many times as fast local disks or large shards are read. Assumption.
pub(crate) const LOCAL_READS: Uniform = (1.5, 8.0);
/// How many times as fast varying input arrives through a deeper queue, up to what the GPU takes.
/// Assumption.
pub(crate) const DEEPER_QUEUE: Uniform = (1.05, 2.0);
/// Part of the time that a job whose input is fixed still waits. Assumption.
pub(crate) const RESIDUAL_WAIT: Uniform = (0.0, 0.05);

// Batches.

/// Jobs at a steady part load whose overhead is per step (launches, synchronization, exchange); that of
/// the others is per sample, which a larger batch does not change. Assumption.
pub(crate) const OVERHEAD_PER_STEP: f64 = 0.75;
/// Samples that each doubling of the batch costs. McCandlish, below the critical size.
pub(crate) const MORE_SAMPLES: Uniform = (0.0, 0.05);
/// Gain below which a batch is not doubled again. Assumption.
pub(crate) const MIN_GAIN: f64 = 0.03;
/// Memory up to which a batch can grow. Assumption: the rest is fragmentation.
pub(crate) const USABLE_MEMORY: f64 = 0.95;
/// Activations that checkpointing keeps. Assumption: the square root of 10 to 50 layers.
pub(crate) const KEPT_ACTIVATIONS: Uniform = (0.15, 0.35);
/// Work of a step with checkpointing. Recomputation.
pub(crate) const CHECKPOINTED_WORK: f64 = 4.0 / 3.0;
/// Headroom above 70% that overlapping copies uses. Assumption.
pub(crate) const OVERLAPPED: Uniform = (0.0, 0.6);

// Pauses.

/// Regular pauses that are checkpoints; the others are evaluation. Assumption.
pub(crate) const CHECKPOINTS: f64 = 0.6;
/// Share of a pause that background checkpoints remove. CheckFreq: at most 3.5% remain of all time, and
/// pauses here are 5% to 25% of it.
pub(crate) const IN_BACKGROUND: Uniform = (0.6, 0.95);
/// Share of a pause that less evaluation removes. Assumption.
pub(crate) const LESS_EVALUATION: Uniform = (0.0, 0.6);
/// Restarts whose cause is found, and the share of their pauses that this removes. Assumption.
pub(crate) const CAUSE_FOUND: f64 = 0.6;
pub(crate) const FEWER_RESTARTS: Uniform = (0.4, 1.0);
/// Seconds from the end of a queued job to the start of the next. Assumption.
pub(crate) const NEXT_JOB: Uniform = (20.0, 90.0);
/// Gaps between jobs that exist because the next job was not submitted in time, though it was ready.
/// Assumption.
pub(crate) const COULD_QUEUE: f64 = 0.6;
/// Share of the preparation of a job that can take place before its GPUs are rented. Assumption.
pub(crate) const PREPARABLE: Uniform = (0.3, 0.95);

// Instances.

/// Seconds without work after which an instance is stopped, unless a recommendation states another time.
pub(crate) const RELEASE_AFTER: f64 = 600.0;
/// Seconds from the start of an instance to the start of its work: boot, image, model. Assumption.
pub(crate) const BOOT: Uniform = (120.0, 600.0);
/// Owners who agree that their idle session is ended. Assumption.
pub(crate) const SESSION_ENDED: f64 = 0.75;
/// Idle replicas that are a standby which must stay. Assumption.
pub(crate) const STANDBY_STAYS: f64 = 0.25;
/// Fleets with a backlog of other work, and the share of free time that it fills; and the same without a
/// backlog. Assumption.
pub(crate) const BACKLOG: f64 = 0.6;
pub(crate) const FILLED: Uniform = (0.4, 0.95);
pub(crate) const FILLED_WITHOUT_BACKLOG: Uniform = (0.0, 0.3);
/// The shortest time for which other work is placed on a free GPU, in seconds. Assumption.
pub(crate) const MIN_PLACEMENT: f64 = 1_800.0;
/// Owners who agree to share their GPU. Assumption.
pub(crate) const AGREE_TO_SHARE: f64 = 0.7;
/// Mean load of a GPU that several tasks share. Assumption.
pub(crate) const SHARED_LOAD: f64 = 0.8;

// Services.

/// Utilization of a replica up to which latency is acceptable, at the 99th percentile of load.
/// facts: a serving target of 60% to 80%.
pub(crate) const ACCEPTABLE_LOAD: Uniform = (0.60, 0.80);
/// Replicas that stay for redundancy: one or two. Assumption.
pub(crate) const TWO_REPLICAS_STAY: f64 = 0.5;
/// Services whose GPU time per request falls if requests are batched, and by how much. Assumption.
pub(crate) const BATCHES_REQUESTS: f64 = 0.7;
pub(crate) const LESS_TIME_PER_REQUEST: Uniform = (0.1, 0.5);
/// How many times as long a request may take. Assumption.
pub(crate) const ACCEPTABLE_SLOWDOWN: Uniform = (1.2, 4.0);

// Other GPUs and prices.

/// Share of the GPU's work that arithmetic limits; bandwidth limits the rest. Assumption.
pub(crate) const ARITHMETIC: Uniform = (0.0, 1.0);
/// Host time on the other instance, relative to this one. Assumption.
pub(crate) const HOST_TIME: Uniform = (0.9, 1.25);
/// Work that needs no more CPUs and host memory than the smallest instance with its GPU has. Assumption.
pub(crate) const SMALLER_HOST: f64 = 0.5;
/// Interruptions of spot capacity per hour: between one a week and one in five hours. Assumption.
pub(crate) const INTERRUPTIONS: Uniform = (0.006, 0.2);
/// Hours that each interruption repeats: half of the interval between checkpoints, and a restart.
/// Assumption.
pub(crate) const REPEATED_HOURS: Uniform = (0.1, 0.6);
/// The spot price over the run, relative to the listed one. Assumption.
pub(crate) const SPOT_PRICE: Uniform = (0.9, 1.2);
/// Share of the run without spot capacity, at the price on demand. Assumption.
pub(crate) const WITHOUT_SPOT: Uniform = (0.0, 0.15);
/// Workloads that may move to another region or provider, and the share of the bill that traffic and
/// storage there cost. Assumption.
pub(crate) const CAN_MOVE: f64 = 0.4;
pub(crate) const COST_OF_MOVING: Uniform = (0.0, 0.08);
/// Share of the time in matrix products, which faster arithmetic shortens; and jobs whose accuracy allows
/// it. Assumption.
pub(crate) const MATRIX_PRODUCTS: Uniform = (0.2, 0.8);
pub(crate) const ACCURATE: f64 = 0.85;
