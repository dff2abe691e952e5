//! The registry of telemetry, and the comparison of what is sent with it.

pub(crate) mod model;
pub(crate) mod wire;
