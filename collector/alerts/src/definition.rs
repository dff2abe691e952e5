//! A rule as its file defines it: some values may have to be set.

use phasemeter_meter::alert::Metric;
use phasemeter_meter::units::Nanos;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMetric {
    /// The meter has it.
    Measured(Metric),
    /// The share of warps that are active. No source has it.
    SmOccupancy,
    /// Time in which transfers or collective operations wait. No source has it.
    CommunicationStall,
}

impl RuleMetric {
    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        let measured = Metric::all().map(Self::Measured);
        measured.chain([Self::SmOccupancy, Self::CommunicationStall])
    }

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured(metric) => metric.name(),
            Self::SmOccupancy => "sm_occupancy",
            Self::CommunicationStall => "communication_stall",
        }
    }

    /// Whether it is a share, and not a temperature.
    #[must_use]
    pub const fn is_share(self) -> bool {
        match self {
            Self::Measured(metric) => metric.is_share(),
            Self::SmOccupancy | Self::CommunicationStall => true,
        }
    }
}

/// A rule of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDefinition {
    /// Its profile, if it has one.
    pub profile: Option<String>,
    /// Its name in the profile.
    pub name: String,
    /// What it means if it holds, as a phrase without its full stop.
    pub brief: String,
    /// What it is about.
    pub metric: RuleMetric,
    /// Whether it holds below the threshold, and not above.
    pub is_below: bool,
    /// The threshold, in the unit of the metric; `None` if it must be set.
    pub threshold: Option<u32>,
    /// The time that the mean is of.
    pub window: Nanos,
    /// How long the condition must hold; `None` if it must be set.
    pub hold: Option<Nanos>,
    /// Whether it is evaluated unless it is disabled.
    pub enabled: bool,
}

impl RuleDefinition {
    /// Its name among all rules: `profile.name`.
    #[must_use]
    pub fn id(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{profile}.{}", self.name),
            None => self.name.clone(),
        }
    }
}
