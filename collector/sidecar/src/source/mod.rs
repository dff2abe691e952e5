//! Where readings come from: the start of the line.

pub mod nvml;
