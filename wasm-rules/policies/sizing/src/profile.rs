//! Thresholds of published guides for the size of a GPU.

/// Thresholds, as shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Profile {
    /// Utilization below which a smaller GPU is considered.
    pub(crate) underutilized: f64,
    /// Utilization and memory in use below which the GPU is far too large.
    pub(crate) oversized: (f64, f64),
    /// Share of the time in which a smaller GPU may be above its target, and that utilization.
    pub(crate) load: (f64, f64),
    /// Memory in use from which it limits the work. On another GPU it must be less.
    pub(crate) memory_short: f64,
    /// Activity of the SMs, else utilization, from which arithmetic limits the work.
    pub(crate) full: f64,
}

/// SM activity 60 and 85%, memory 40, 80 and 95%: the last is a risk, which the policy `health` reports.
const RIGHT_SIZING: Profile = Profile {
    underutilized: 0.6,
    oversized: (0.6, 0.4),
    load: (0.05, 0.85),
    memory_short: 0.8,
    full: 0.85,
};

/// Utilization 25 and 60%, memory 85%, a serving target of at most 80%.
const OPTIMIZATION: Profile = Profile {
    underutilized: 0.6,
    oversized: (0.25, 0.85),
    load: (0.05, 0.8),
    memory_short: 0.85,
    full: 0.85,
};

/// Utilization 50%, memory 85%.
const ANALYTICS: Profile =
    Profile { underutilized: 0.5, oversized: (0.5, 0.85), load: (0.05, 0.85), ..OPTIMIZATION };

/// The defaults of AWS Compute Optimizer: the 99.5th percentile with a headroom of 20%, of utilization and
/// of memory.
const COMPUTE_OPTIMIZER: Profile = Profile {
    underutilized: 0.8,
    oversized: (0.8, 0.8),
    load: (0.005, 0.8),
    memory_short: 0.8,
    full: 0.8,
};

impl Profile {
    /// The profile of a name in the settings.
    pub(crate) fn of(name: &str) -> &'static Self {
        match name {
            "analytics" => &ANALYTICS,
            "optimization" => &OPTIMIZATION,
            "compute-optimizer" => &COMPUTE_OPTIMIZER,
            _ => &RIGHT_SIZING,
        }
    }
}
