//! Bounds that several policies and diagnoses compare with, and shares that several expect.

/// Difference of shares or levels up to which GPUs get one recommendation. An assumption.
pub const SIMILAR: f64 = 0.1;

/// Compute-bound share of the time from which a GPU never waits for long. An assumption.
pub const MOSTLY_FULL: f64 = 0.8;

/// Activity of the SMs of a busy GPU up to which most of them wait: kernels are small. NVIDIA's guide to DCGM: below 0.5 a
/// GPU is hardly used effectively.
pub const FEW_SMS: f64 = 0.4;

/// Share of the time without work from which work comes in bursts, and pauses are no waits. An assumption.
pub const NEARLY_IDLE: f64 = 0.8;

/// Interval between readings up to which bursts and waits are seen, in seconds. An assumption.
pub const SEES_BURSTS: f64 = 10.0;

/// Share of the time in which GPUs may be above their target. An assumption.
pub const ABOVE: f64 = 0.01;

/// The same of bursts that may wait. An assumption.
pub const BURSTS: f64 = 0.05;

/// Level that is divided by, at least. An assumption.
pub const SMALLEST: f64 = 0.01;

/// Utilization up to which it does not count as work: drivers report a percent or two while a job waits. An assumption.
pub const NO_WORK: f64 = 0.03;

/// The longest of regular times, relative to the shortest. An assumption.
pub const REGULAR: f64 = 1.5;

/// Power of a saturated GPU, as a share of its limit: utilization only shows that a kernel runs. An assumption.
pub const FULL_POWER: f64 = 0.85;

/// Power of a full GPU, as a share of its limit, below which arithmetic is not its limit. An assumption.
pub const LOW_POWER: f64 = 0.55;

/// The same up to which it may compute nothing: an idle H100 draws 10–20%; the margin is an assumption.
pub const LITTLE_POWER: f64 = 0.25;

/// Power of a GPU that works, as a share of the power that its model is built for, at least. Without work, a process that
/// holds a GPU keeps its clocks high: an L4 or T4 then draws 40–45% of 70 W, an A10 40% of 150 W, an H100 10–20% of 700 W.
/// The margin is an assumption.
pub const WORKING_POWER: f64 = 0.5;

/// Power limit, relative to that of the model or of other GPUs, from which a GPU is capped; and power while busy, relative
/// to its limit, from which the limit slows it.
pub const CAPPED: f64 = 0.9;

/// Clock while busy, relative to its maximum or to that of the others, below which it is low. An assumption.
pub const FULL_CLOCK: f64 = 0.8;

/// Share of the memory that a job leaves free: inputs vary in length, and allocators fragment. An assumption.
pub const FREE_MEMORY: f64 = 0.1;

/// Share of the memory in use from which it is nearly full: the highest threshold of the published guides.
pub const NEARLY_FULL: f64 = 0.95;

/// Memory use up to which a task is small enough to share a GPU without MIG.
pub const SMALL_MEMORY: f64 = 0.5;

/// Use of a video engine from which it is the limit. An assumption.
pub const FULL_ENGINE: f64 = 0.8;

/// Difference of the memory in use, relative to the larger, up to which GPUs may do the same work. An assumption.
pub const SAME_MEMORY: f64 = 0.2;

/// Share of a bill that a cause or a branch of advice explains at most, from which it matters. An assumption.
pub const MATTERS: f64 = 0.05;

/// Growth of a doubled batch.
pub const DOUBLING: f64 = 2.0;

/// Fewest consecutive hours of a day for which something is stopped: shorter ones are pauses of use. An assumption.
pub const MIN_HOURS: usize = 4;

/// Share of free capacity that other work uses: low, expected, high. An assumption; nothing is saved without a tenant.
pub const REUSED: [f64; 3] = [0.0, 0.45, 0.7];

/// Share of pauses, or of the time before the first work, that is saved: low, expected, high. An assumption.
pub const SHORTENED: [f64; 3] = [0.0, 0.5, 0.9];

/// Share of a price difference that a move saves: low, expected, high. Less if the work takes longer there. An assumption.
pub const DIFFERENCE_SAVED: [f64; 3] = [0.0, 0.8, 1.0];

/// Attributes that name the job of a GPU.
pub const JOBS: [&str; 3] = ["k8s.pod.uid", "k8s.pod.name", "slurm.job.id"];
