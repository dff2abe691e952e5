//! Payment plans.

use std::fmt;
use std::str::FromStr;

/// How a GPU is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentPlan {
    /// Hourly, at the list price.
    OnDemand,
    /// Hourly, interruptible.
    Spot,
    /// Committed for one year.
    Reserved1y,
    /// Committed for three years.
    Reserved3y,
    /// Purchased: an hour costs a share of the purchase price.
    Owned,
}

impl PaymentPlan {
    /// All plans, most common first.
    pub const ALL: [Self; 5] =
        [Self::OnDemand, Self::Spot, Self::Reserved1y, Self::Reserved3y, Self::Owned];

    /// Whether hours are paid for, used or not. Then using a GPU less frees capacity and saves no money.
    #[must_use]
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Reserved1y | Self::Reserved3y | Self::Owned)
    }

    /// The name on the command line and in telemetry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on_demand",
            Self::Spot => "spot",
            Self::Reserved1y => "reserved_1y",
            Self::Reserved3y => "reserved_3y",
            Self::Owned => "owned",
        }
    }
}

impl fmt::Display for PaymentPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PaymentPlan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Self, ParsePlanError> {
        Self::ALL
            .into_iter()
            .find(|plan| plan.as_str() == text)
            .ok_or_else(|| ParsePlanError(text.to_owned()))
    }
}

/// The text is not the name of a [`PaymentPlan`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plan '{0}': expected on_demand, spot, reserved_1y, reserved_3y or owned")]
pub struct ParsePlanError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_parses_as_displayed() {
        for plan in PaymentPlan::ALL {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }

    #[test]
    fn parse_error_lists_every_plan() {
        let error = "on-demand".parse::<PaymentPlan>().unwrap_err().to_string();
        assert!(PaymentPlan::ALL.iter().all(|plan| error.contains(plan.as_str())), "{error}");
    }
}
