//! What the sidecar tells of itself: lines on standard error. This room must not know what GPUs say.

pub mod log;
