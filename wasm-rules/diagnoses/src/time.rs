//! Steps of time, in seconds. Finer ones would claim more than is known.

/// What is shorter is a step of the work, or a delay of readings. An assumption.
pub const BRIEF: f64 = 60.0;

/// What lasts as long is not an accident. An assumption.
pub const LASTING: f64 = 600.0;

/// What was seen for as long is usual. An assumption.
pub const USUAL: f64 = 1_800.0;
