//! How a GPU is paid for.

use std::fmt;
use std::str::FromStr;

/// How a GPU is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plan {
    /// By the hour, at the list price.
    OnDemand,
    /// By the hour, for as long as nobody else wants it.
    Spot,
    /// Bound for one year.
    Reserved1y,
    /// Bound for three years.
    Reserved3y,
    /// Bought: an hour of it is a share of what it cost.
    Own,
}

impl Plan {
    /// All plans, the most usual first.
    pub const ALL: [Self; 5] =
        [Self::OnDemand, Self::Spot, Self::Reserved1y, Self::Reserved3y, Self::Own];

    /// Its name on the command line and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on_demand",
            Self::Spot => "spot",
            Self::Reserved1y => "reserved_1y",
            Self::Reserved3y => "reserved_3y",
            Self::Own => "own",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Plan {
    type Err = NotAPlan;

    fn from_str(text: &str) -> Result<Self, NotAPlan> {
        Self::ALL
            .into_iter()
            .find(|plan| plan.as_str() == text)
            .ok_or_else(|| NotAPlan(text.to_owned()))
    }
}

/// The text names no [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no plan: give on_demand, spot, reserved_1y, reserved_3y or own")]
pub struct NotAPlan(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_is_written() {
        for plan in Plan::ALL {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }

    #[test]
    fn the_refusal_names_every_plan() {
        let refusal = "on-demand".parse::<Plan>().unwrap_err().to_string();
        assert!(Plan::ALL.iter().all(|plan| refusal.contains(plan.as_str())), "{refusal}");
    }
}
