//! Recommendations as far as savings are concerned: a fraction of the bill of some GPUs, saved from
//! a waste category or on another axis.

use super::estimate::Estimate;
use super::fraction::Fraction;
use phasemeter_meter::waste::WasteCategory;

/// Fractions of a bill: 0 ≤ low ≤ expected ≤ high ≤ 1.
pub type Saving = Estimate<Fraction>;

/// What a recommendation acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A waste category, whose waste caps the saving.
    Waste(WasteCategory),
    /// Work per GPU-hour.
    Throughput,
    /// Price per GPU-hour.
    Rate,
}

impl Target {
    /// All targets, in the order of the waterfall.
    pub const ALL: [Self; 5] = [
        Self::Waste(WasteCategory::Starvation),
        Self::Waste(WasteCategory::Idle),
        Self::Waste(WasteCategory::Underload),
        Self::Throughput,
        Self::Rate,
    ];

    /// The name in reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waste(category) => category.name(),
            Self::Throughput => "throughput",
            Self::Rate => "rate",
        }
    }
}

/// One recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation<'a> {
    /// The policy that returned it.
    pub policy: &'a str,
    /// The policy's code for it.
    pub code: &'a str,
    /// Its target.
    pub target: Target,
    /// The saving, as a fraction of the bill of `gpus`.
    pub saving: Saving,
    /// IDs of the GPUs it applies to.
    pub gpus: &'a [String],
    /// Whether it is known to reduce the bill. If not, it prevents a loss, frees capacity or is a hypothesis that no
    /// trial has settled, and never counts.
    pub is_saving: bool,
    /// Whether it changes on which GPUs the work runs. Such recommendations are alternatives: a GPU that is shared
    /// is not replaced as well.
    pub moves_work: bool,
}
