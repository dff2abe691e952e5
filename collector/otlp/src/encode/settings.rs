//! Export settings. Must not depend on how they are configured.

use phasemeter_meter::units::Nanos;

/// Export settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSettings {
    /// Metrics are exported at multiples of this, in whole seconds (`MeterConfig::boundary_every`).
    pub every: Nanos,
    /// Aggregation of utilization.
    pub aggregation: Aggregation,
}

/// Every minute with explicit buckets, OpenTelemetry's defaults.
impl Default for ExportSettings {
    fn default() -> Self {
        Self { every: Nanos::from_secs(60), aggregation: Aggregation::Explicit }
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
    /// By OpenTelemetry's name; `None` if there is no such aggregation.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "explicit_bucket_histogram" => Some(Self::Explicit),
            "base2_exponential_bucket_histogram" => Some(Self::Exponential),
            _ => None,
        }
    }
}
