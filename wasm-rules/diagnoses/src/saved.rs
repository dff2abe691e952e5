//! Parts of what is at stake that a trial saves: low, expected, high. Nothing is certain, and finer steps would claim
//! more than is known.

/// If it helps some of the work. An assumption.
pub const FIFTH: [f64; 3] = [0.0, 0.2, 0.4];

/// If half of it can be saved at best. An assumption.
pub const QUARTER: [f64; 3] = [0.0, 0.25, 0.5];

/// If all of it can be saved at best. An assumption.
pub const HALF: [f64; 3] = [0.0, 0.5, 1.0];
