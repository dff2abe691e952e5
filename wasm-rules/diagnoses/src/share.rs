//! Shares from which something is true of the whole, such as of the time, of the readings or of the replicas. Finer
//! steps would claim more than is known.

/// Hardly any: up to this share something is left out of account. An assumption.
pub const HARDLY_ANY: f64 = 0.1;

/// Most: from half on.
pub const MOST: f64 = 0.5;

/// Nearly all. An assumption.
pub const NEARLY_ALL: f64 = 0.9;
