//! Probes of this process, and metrics for Prometheus: `--health-listen`.
//!
//! ```text
//! main loop ─beat, ready→ Health ←─ /livez, /readyz, grpc.health.v1 ─ kubelet
//!           ─requests→ exposition ←┬─ /metrics ─ Prometheus
//!           statistics → instruments
//!           ─report so far→ board ←─ /status ─ clients on this machine
//! ```
//!
//! Answers on a thread of its own, even while the main loop is busy. The kubelet and Prometheus reach it from other
//! machines, without a token, so it has no default address.

mod listener;
mod metrics;
mod routes;
mod state;
mod status;

pub use self::listener::HealthListener;
pub use self::metrics::MetricsPages;
pub use self::state::Health;
pub use self::status::StatusBoard;
