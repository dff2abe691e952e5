//! Policies: which are active, what they receive and what they return.
//!
//! ```text
//! PolicySources → PolicyManager ─GenerationLease→ PolicyResults → report, OTLP
//! meters → Window ───────────────────┘
//! ```
//!
//! A policy that fails loses only its own result; readings and the bill never depend on one.

mod change;
mod config;
#[cfg(feature = "full")]
mod history;
mod lease;
mod manager;
mod open_error;
mod quotes;
mod result;
mod sources;
mod stats;
mod suppositions;
mod window;
mod worker;

pub use change::PolicyChange;
pub use config::{OpenError, PolicyConfig};
#[cfg(feature = "full")]
pub use history::RecommendationHistory;
pub use lease::{GenerationHandle, GenerationLease};
pub use manager::PolicyManager;
pub use quotes::{PricerStats, QuoteExpiry, QuotedOffer, QuotedPrice, QuotedPrices, Quotes};
pub use result::{PolicyResult, PolicyResults};
pub use stats::{ActivePolicy, GenerationStats, PolicyStats};
pub use window::{WindowGpu, has_hours_of_week, window};
pub use worker::{Skipped, Worker};
