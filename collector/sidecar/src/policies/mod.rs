//! Advice: which policies are in use, what they are shown, and what they say.
//!
//! ```text
//! Shelf → Policies ─one generation→ Verdicts → report, OTLP
//! meters → Window ──────────────────┘
//! ```
//!
//! A policy that fails costs its verdict, and says so; readings and the bill never depend on one.
//! This room must not know how advice is shown, nor what the savings add up to.

mod config;
mod default_policies;
mod lease;
mod manager;
mod quotes;
mod result;
mod sources;
mod stats;
mod window;
mod worker;

pub use config::{Cache, OpenError, PolicyConfig};
pub use lease::{GenerationHandle, GenerationLease};
pub use manager::PolicyManager;
pub use quotes::{PricerStats, QuoteExpiry, QuoteResult, QuotedPrice, Quotes};
pub use result::{PolicyResult, PolicyResults};
pub use stats::{ActivePolicy, GenerationStats, PolicyStats};
pub use window::{WindowGpu, window};
pub use worker::Worker;
