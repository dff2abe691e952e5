//! Alerts: rules over the mean of a metric in a trailing window, evaluated each minute.

mod evaluator;
mod format;
mod log;
mod rule;

pub use self::evaluator::AlertEvaluator;
pub use self::format::short_time;
pub use self::log::{Alert, AlertLog, MAX_ALERTS, RuleCounts};
pub use self::rule::{AlertChange, Condition, MAX_HOLD, MAX_WINDOW, Metric, Rule, RuleError};
