//! The whole way, as it runs beside a GPU: scripted driver, the binary, a real Collector, its file.
//!
//! ```text
//! script ─→ fake driver ─→ phasemeter run ─→ otelcol ─→ file ─┐
//!    └─→ seconds, dollars and joules that are known ──────────┴─→ the same
//! ```
//!
//! Nothing here may work out a phase or a bill with the product's own code.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

// What the tests stand on.
#[path = "../../collector/otlp/tests/backend/mod.rs"]
mod backend;
mod otelcol;
#[path = "../otlp/mod.rs"]
mod otlp;
mod run;
mod script;
mod shown;

// What must hold.
mod backends;
mod configuration;
mod forwarded;
mod whole;
