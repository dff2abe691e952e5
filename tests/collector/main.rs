//! End-to-end tests: scripted driver, the binary, a real Collector and its file.
//!
//! ```text
//! script ─→ fake driver ─→ phasemeter run ─→ otelcol ─→ file ─┐
//!    └─→ known seconds, dollars and joules ───────────────────┴─→ equal
//! ```
//!
//! Must not compute phases or bills with the product's own code.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "a test may fail, and its numbers are small"
)]

// Test support.
mod expected;
mod gateway_process;
#[path = "../../collector/otlp/tests/mock_backend/mod.rs"]
mod mock_backend;
#[path = "../nodes/mod.rs"]
mod nodes;
mod otelcol;
#[path = "../otlp/mod.rs"]
mod otlp;
mod output;
#[path = "../audit/prng.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod prng;
mod prometheus;
#[path = "../relay/mod.rs"]
mod relay;
mod run;
mod script;
mod server;

// Tests.
mod alerts;
mod backends;
mod configuration;
mod dashboards;
mod durable;
mod end_to_end;
mod fleet;
mod forwarding;
mod gateway;
mod identity;
mod labels;
mod pages;
mod pipelines;
mod recording;
mod replicas;
mod routed;
mod scraped;
mod soak;
mod stack;
mod work;
