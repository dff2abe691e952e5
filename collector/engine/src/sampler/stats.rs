//! The punctuality and cost of sampling.

use phasemeter_meter::units::Nanos;
pub use phasemeter_otlp::duration_histogram::Quantiles;
use phasemeter_sources::live::Metric;

/// Statistics of a sampler.
#[derive(Clone, Debug)]
pub struct SamplerStats {
    /// Lateness of ticks, over all GPUs.
    pub lateness: Quantiles,
    /// Each GPU, by index.
    pub gpus: Vec<GpuStats>,
}

/// Statistics of one GPU.
#[derive(Clone, Debug)]
pub struct GpuStats {
    /// Ticks that ran.
    pub ticks: u64,
    /// Ticks skipped because the previous one took too long.
    pub missed: u64,
    /// Observations dropped because the queue was full.
    pub dropped: u64,
    /// Lateness of ticks.
    pub lateness: Quantiles,
    /// Each metric.
    pub metrics: Vec<MetricStats>,
}

/// Statistics of one metric's calls of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricStats {
    /// The metric.
    pub metric: Metric,
    /// The current poll period; zero before the first call.
    pub period: Nanos,
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
    /// The total duration of calls.
    pub total: Nanos,
    /// The longest call.
    pub max: Nanos,
}

impl SamplerStats {
    /// Tick lateness and losses, as a sentence without its full stop.
    #[must_use]
    pub fn summary(&self) -> String {
        let millis = |nanos: Nanos| nanos.as_secs_f64() * 1e3;
        let late = self.lateness;
        let [p50, p99, max] = [late.p50, late.p99, late.max].map(millis);
        let (missed, dropped) = (self.missed(), self.dropped());
        let mut text = format!("tick lateness p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
        text += &format!("; {missed} ticks missed");
        if dropped > 0 {
            text += &format!(", {dropped} observations dropped");
        }
        text
    }

    /// Missed ticks, over all GPUs.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.missed).sum()
    }

    /// Failed calls of a metric, over all GPUs.
    #[must_use]
    pub fn failed(&self, metric: Metric) -> u64 {
        let of = |gpu: &GpuStats| gpu.metrics.get(metric as usize).map_or(0, |stats| stats.failed);
        self.gpus.iter().map(of).sum()
    }

    /// Dropped observations, over all GPUs.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.dropped).sum()
    }
}
