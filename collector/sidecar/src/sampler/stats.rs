//! What sampling costs and how well it keeps time.

use phasemeter_meter::units::Nanos;
pub use phasemeter_otlp::duration_histogram::Quantiles;
use phasemeter_sources::nvml::Metric;

/// The sampler, so far.
#[derive(Clone, Debug)]
pub struct SamplerStats {
    /// How late ticks came, of all GPUs.
    pub lateness: Quantiles,
    /// Each GPU, in its place.
    pub gpus: Vec<GpuStats>,
}

/// The sampling of one GPU, so far.
#[derive(Clone, Debug)]
pub struct GpuStats {
    /// Ticks that came.
    pub ticks: u64,
    /// Ticks that did not, because the one before took too long.
    pub missed: u64,
    /// Observations that found the channel full.
    pub dropped: u64,
    /// How late ticks came.
    pub lateness: Quantiles,
    /// Each metric.
    pub metrics: Vec<MetricStats>,
}

/// The calls for one metric of one GPU, so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricStats {
    /// Which.
    pub metric: Metric,
    /// How often it is asked now; zero before the first time.
    pub period: Nanos,
    /// How often it was asked.
    pub calls: u64,
    /// How often there was no answer.
    pub failed: u64,
    /// The time all calls took.
    pub total: Nanos,
    /// The longest.
    pub max: Nanos,
}

impl SamplerStats {
    /// Ticks that did not come, of all GPUs.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.missed).sum()
    }

    /// Calls for a metric that brought no answer, of all GPUs.
    #[must_use]
    pub fn failed(&self, metric: Metric) -> u64 {
        let of = |gpu: &GpuStats| gpu.metrics.get(metric as usize).map_or(0, |stats| stats.failed);
        self.gpus.iter().map(of).sum()
    }

    /// Observations that found the channel full, of all GPUs.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.dropped).sum()
    }
}
