//! A rule, and the change of an alert.

use crate::quantity::{AlertNames, Quantity, Unit};
use crate::units::{Nanos, Timestamp};

/// One minute.
pub(super) const MINUTE: Nanos = Nanos::from_secs(60);

/// Longest window of a rule. It bounds the memory of a GPU: 23 KiB per metric.
pub const MAX_WINDOW: Nanos = Nanos::from_secs(24 * 3_600);

/// Longest time for which a condition must hold.
pub const MAX_HOLD: Nanos = Nanos::from_secs(7 * 24 * 3_600);

/// What a rule is about: a quantity that has names for it. Shares are in millionths, temperatures in millionths of a
/// degree Celsius; memory is a share of its size, power one of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    quantity: Quantity,
    names: AlertNames,
}

impl Metric {
    /// The metric of a quantity; `None` if rules cannot be about it.
    #[must_use]
    pub fn of(quantity: Quantity) -> Option<Self> {
        quantity.alert().map(|names| Self { quantity, names })
    }

    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        Quantity::all().filter_map(Self::of)
    }

    /// What is measured.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        self.quantity
    }

    /// The name in files, reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names.name
    }

    /// The series, as Prometheus names it.
    #[must_use]
    pub const fn series(self) -> &'static str {
        self.names.series
    }

    /// Whether it is a share, and not a temperature.
    #[must_use]
    pub const fn is_share(self) -> bool {
        !matches!(self.quantity.unit(), Unit::Celsius)
    }
}

/// When a rule's condition holds. An equal mean fulfills neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The mean is below this value.
    Below(u32),
    /// The mean is above this value.
    Above(u32),
}

impl Condition {
    /// The threshold, in the unit of the metric.
    #[must_use]
    pub const fn threshold(self) -> u32 {
        match self {
            Self::Below(value) | Self::Above(value) => value,
        }
    }

    /// Whether `weighted ÷ time` fulfills it, exactly.
    pub(super) fn holds(self, weighted: u128, time: u64) -> bool {
        let threshold = u128::from(self.threshold()) * u128::from(time);
        match self {
            Self::Below(_) => weighted < threshold,
            Self::Above(_) => weighted > threshold,
        }
    }
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    id: String,
    metric: Metric,
    condition: Condition,
    window: Nanos,
    hold: Nanos,
}

/// Why a rule is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The window is not usable.
    #[error("invalid window: expected whole minutes, from 1m to 24h")]
    Window,
    /// The hold time is not usable.
    #[error("invalid for: expected whole minutes, at most 7d")]
    Hold,
}

impl Rule {
    /// A rule on the mean over a trailing `window`, which must hold for `hold`.
    ///
    /// # Errors
    /// Returns an error if a time is not in whole minutes or too long.
    pub fn new(
        id: String,
        metric: Metric,
        condition: Condition,
        window: Nanos,
        hold: Nanos,
    ) -> Result<Self, RuleError> {
        let in_minutes = |time: Nanos| time.0.is_multiple_of(MINUTE.0);
        if !in_minutes(window) || window < MINUTE || window > MAX_WINDOW {
            return Err(RuleError::Window);
        }
        if !in_minutes(hold) || hold > MAX_HOLD {
            return Err(RuleError::Hold);
        }
        Ok(Self { id, metric, condition, window, hold })
    }

    /// Its name, unique among the rules of a run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is about.
    #[must_use]
    pub const fn metric(&self) -> Metric {
        self.metric
    }

    /// When it holds.
    #[must_use]
    pub const fn condition(&self) -> Condition {
        self.condition
    }

    /// The time that the mean is of.
    #[must_use]
    pub const fn window(&self) -> Nanos {
        self.window
    }

    /// How long the condition must hold.
    #[must_use]
    pub const fn hold(&self) -> Nanos {
        self.hold
    }

    /// The window in minutes.
    pub(super) fn minutes(&self) -> usize {
        usize::try_from(self.window.0 / MINUTE.0).unwrap_or(usize::MAX)
    }
}

/// An alert opened or closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlertChange<'a> {
    /// Its rule.
    pub rule: &'a Rule,
    /// The end of the minute at which it changed.
    pub at: Timestamp,
    /// Since when the condition held.
    pub since: Timestamp,
    /// Whether it opened.
    pub opened: bool,
    /// The mean over the window at `at`, in the unit of the metric.
    pub mean: f64,
}
