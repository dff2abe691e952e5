//! Export settings.

use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use phasemeter_meter::units::Nanos;

use super::limits::Limits;
use super::metric_selection::MetricSelection;

/// Export settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSettings {
    /// Metrics are exported at multiples of this, in whole seconds (`MeterConfig::boundary_every`).
    pub every: Nanos,
    /// Which metrics of GPUs are exported.
    pub metrics: MetricSelection,
    /// Aggregation of utilization.
    pub aggregation: Aggregation,
    /// Whether points are totals or increases.
    pub temporality: TemporalityPreference,
    /// Which readings can become exemplars.
    pub exemplars: ExemplarFilter,
    /// Limits of spans and log records.
    pub limits: Limits,
    /// Whether time, cost and waste of GPUs are exported by holder, in place of those of GPUs.
    pub by_holder: bool,
}

/// OpenTelemetry's defaults.
impl Default for ExportSettings {
    fn default() -> Self {
        Self {
            every: Nanos::from_secs(60),
            metrics: MetricSelection::default(),
            aggregation: Aggregation::Explicit,
            temporality: TemporalityPreference::Cumulative,
            exemplars: ExemplarFilter::TraceBased,
            limits: Limits::default(),
            by_holder: false,
        }
    }
}

/// Aggregation of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Fixed bucket bounds.
    Explicit,
    /// Exponential bucket bounds.
    Exponential,
}

impl Aggregation {
    /// By OpenTelemetry's name, in any case; `None` if there is no such aggregation.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "explicit_bucket_histogram" => Some(Self::Explicit),
            "base2_exponential_bucket_histogram" => Some(Self::Exponential),
            _ => None,
        }
    }
}

/// The temporality of sums and histograms. A sum that can fall is always cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalityPreference {
    /// All points are totals since the first reading.
    Cumulative,
    /// Points of counters and histograms are increases since the previous point.
    Delta,
    /// Points of histograms are increases. Counters read a running total, as an asynchronous
    /// instrument does, and stay cumulative.
    LowMemory,
}

impl TemporalityPreference {
    /// By OpenTelemetry's name, in any case; `None` if there is no such preference.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "cumulative" => Some(Self::Cumulative),
            "delta" => Some(Self::Delta),
            "lowmemory" => Some(Self::LowMemory),
            _ => None,
        }
    }

    /// The temporality of counters.
    pub(super) const fn counters(self) -> AggregationTemporality {
        match self {
            Self::Cumulative | Self::LowMemory => AggregationTemporality::Cumulative,
            Self::Delta => AggregationTemporality::Delta,
        }
    }

    /// The temporality of histograms.
    pub(super) const fn histograms(self) -> AggregationTemporality {
        match self {
            Self::Cumulative => AggregationTemporality::Cumulative,
            Self::Delta | Self::LowMemory => AggregationTemporality::Delta,
        }
    }
}

/// Which readings can become exemplars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExemplarFilter {
    /// None.
    AlwaysOff,
    /// Those whose trace is recorded: an exemplar must lead to a span.
    TraceBased,
}

impl ExemplarFilter {
    /// By OpenTelemetry's name, in any case; `None` if it is unknown or not supported.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "always_off" => Some(Self::AlwaysOff),
            "trace_based" => Some(Self::TraceBased),
            _ => None,
        }
    }
}
