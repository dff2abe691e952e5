//! The steps of confidence: the share of cases in which a recommendation saves at least half of what it expects. They are
//! known from simulated fleets alone, so that finer ones would say nothing; of trials they only give the order.

/// The recorded seconds leave no doubt. An assumption.
pub const CERTAIN: f64 = 0.95;

/// The same, if nobody objects. An assumption.
pub const NEARLY_CERTAIN: f64 = 0.9;

/// Another cause is rare. An assumption.
pub const VERY_LIKELY: f64 = 0.8;

/// The usual cause, with exceptions that cannot be seen. An assumption.
pub const LIKELY: f64 = 0.7;

/// Likelier than all other causes together. An assumption.
pub const PROBABLE: f64 = 0.6;

/// As likely as not. An assumption.
pub const EVEN: f64 = 0.5;

/// One of several causes, or work that may not fit. An assumption.
pub const DOUBTFUL: f64 = 0.4;

/// Worth a trial after others. An assumption.
pub const UNLIKELY: f64 = 0.3;
