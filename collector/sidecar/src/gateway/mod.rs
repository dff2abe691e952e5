//! The gateway: what other programs send passes through, and the GPU metrics in it are metered.
//!
//! ```text
//! Receiver ─Received→ Forwarder ─EncodedRequest→ Client → backend
//!                         └─Received (metrics)→ Intake ─GpuValue→ ReadingBuffer → Pipeline
//! ```
//!
//! Spans that wait for their price would wait in [`Forwarder`], which sees each request before it is
//! forwarded; everything else passes at once. Must not depend on the command line or on reports.

mod billing;
mod forwarder;
mod intake;

pub use self::billing::{GatewayBilling, GatewaySummary};
pub use self::forwarder::Forwarder;
pub use self::intake::{Exclusions, Intake};
