//! The sidecar: where readings come from, and where what is known goes.

pub mod report;
