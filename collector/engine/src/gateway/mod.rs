//! The gateway: what other programs send passes through, and the GPU metrics in it are metered.
//!
//! ```text
//! Receiver ─EncodedRequest→ Forwarder ─EncodedRequest→ Client → backend
//!                         ├─Metrics→ CounterIntake ─WorkDone, ServedTime→ Pipeline
//!                         ├─Metrics→ Intake ─GpuValue→ ReadingBuffer → Pipeline ─CostSlice─┐
//!                         └─Spans──────────────────────────────────────────→ SpanCosts ←───┘
//!                                                             with their cost └→ Client → backend
//! ```
//!
//! The cost of a span that left without it follows by the same client.
//!
//! Of several gateways that receive the same, each passes on and meters its own part ([`Replicas`]).
//!
//! Only spans that are to be priced wait; everything else passes at once.

mod agents;
mod billing;
mod clock_check;
mod command_telemetry;
mod forwarder;
mod intake;
mod meters;
mod release;
mod replicas;
mod sender_counts;
mod span_claims;
mod span_costs;
mod span_filter;
mod span_pricing;
mod span_releases;
mod span_summary;
mod status;
mod work_intake;
mod work_servers;
mod work_serving;

pub use self::billing::{GatewayBilling, GatewaySummary, Pauses};
pub use self::clock_check::FarFromClock;
pub use self::command_telemetry::CommandTelemetry;
pub use self::forwarder::{Forwarder, Metered};
pub use self::intake::{Exclusions, Intake, SeenHolder};
pub use self::release::Outgoing;
pub use self::replicas::{Replicas, ReplicasError};
pub use self::sender_counts::SenderCounts;
pub use self::span_costs::{SpanCosts, Unplaced};
pub use self::span_filter::{FilteredSpans, SpanFilter};
pub use self::span_pricing::{GpuIndices, SpanPricing};
pub use self::span_summary::SpanSummary;
pub use self::status::{DropCounts, DroppedBy, GatewayCounts, GatewayStatus};
pub use self::work_intake::CounterIntake;
pub use self::work_servers::{ServedTime, WorkServers};
pub use self::work_serving::WorkServing;
