//! The cost of a span: divides the cost of GPU time among the chosen spans that are active.
//!
//! ```text
//! CostSlice (of a GPU) ─┐
//!                       ├─→ Attribution ─→ spans with their cost, or cost that follows a span
//! ChosenSpan ───────────┘        └─→ unattributed
//! ```
//!
//! At each instant the time of a GPU is divided among the active chosen spans: equally, or by weight ÷
//! duration. Of a GPU that several hold, what each pays is divided apart, among its own spans and those of the whole
//! GPU. Of nested spans the deepest is charged. Cost, utilized time and energy of a time slice are
//! divided in proportion to that time, by largest remainder, so **spans + unsampled + unattributed = bill**, to the
//! nano-dollar. A sampled span has its share beside the spans that it represents; theirs is the cost of spans that
//! were not sampled. Like the meter, this has no I/O, clock or logging: time is an argument, and memory is
//! limited.

#![forbid(unsafe_code)]

// Values.
mod active_spans;
mod adjusted_count;
mod candidate;
pub mod cost;
mod cost_slice;
mod gpu_set;
mod holder_keys;
pub mod span;

// Which spans, and which GPUs.
mod assignments;
pub mod directory;
pub mod selection;

// The division of time, and of what it costs.
mod candidates;
mod division;
mod gpu_cost;
mod open_cost;
mod sweep;

// Spans that wait for their cost.
pub mod attribution;
mod limits;
mod links;
mod waiting;

pub use adjusted_count::AdjustedCount;
pub use attribution::{Attribution, LeftSpan, Release};
pub use cost::{CostSlice, SpanCost};
pub use holder_keys::HolderKeys;
pub use limits::Limits;
pub use span::{ChosenSpan, GpuSet, RejectReason, SpanKey};
