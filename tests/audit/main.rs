//! Black-box tests of the binary as users run it.
//!
//! ```text
//! generated or recorded log ─→ phasemeter ─→ report, OTLP file ─┐
//!            └─→ reference reader ─→ oracle ────────────────────┴─→ equal
//! ```
//!
//! Must not read logs or compute phases and bills with the product's own code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

// Test support.
mod consistency;
mod logs;
#[path = "../otlp/mod.rs"]
mod otlp;
mod phasemeter;
mod picture;
#[path = "../../rules/tests/support/mod.rs"]
mod policies;
mod policy_files;
mod prng;
mod promises;
#[path = "../registry/mod.rs"]
mod registry;
mod report;

// Tests.
mod accuracy;
mod alerts;
mod bill;
mod compare;
mod contracts;
mod corrupt_metrics;
mod demo;
mod determinism;
mod exercises;
mod exit_status;
mod fixtures;
mod fleets;
mod focus_validator;
mod fuzz_seeds;
mod hostile;
mod hostile_pricers;
mod identities;
mod locations;
mod metric_logs;
mod models;
mod overlay;
mod page;
mod plans;
mod policy_errors;
mod presence;
mod prices;
mod queries;
mod recommendations;
mod risks_of_metrics;
mod situations;
mod time_zones;
mod trace;
mod trace_size;
mod trials;
mod wire_registry;
mod work_log;
mod worked_examples;
