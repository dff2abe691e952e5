//! What a user decides about what is exported. This room must not know how they said so.

use phasemeter_meter::units::Nanos;

/// What a user decides about what is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSettings {
    /// Metrics are told at multiples of this, whole seconds: `MeterConfig::boundary_every`.
    pub every: Nanos,
    /// How utilization is counted.
    pub aggregation: Aggregation,
}

/// Every minute, as OpenTelemetry says; explicit buckets.
impl Default for ExportSettings {
    fn default() -> Self {
        Self { every: Nanos::from_secs(60), aggregation: Aggregation::Explicit }
    }
}

/// How a histogram is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// In buckets with fixed bounds.
    Explicit,
    /// In buckets that widen by the same factor each.
    Exponential,
}

impl Aggregation {
    /// By the name it has in OpenTelemetry; `None` where there is none such.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "explicit_bucket_histogram" => Some(Self::Explicit),
            "base2_exponential_bucket_histogram" => Some(Self::Exponential),
            _ => None,
        }
    }
}
