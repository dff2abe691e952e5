//! A rule as its file defines it: how long it must hold may have to be set.

use phasemeter_meter::alert::Metric;
use phasemeter_meter::units::Nanos;

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
    pub metric: Metric,
    /// Whether it holds below the threshold, and not above.
    pub is_below: bool,
    /// The threshold, in the unit of the metric.
    pub threshold: u32,
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
