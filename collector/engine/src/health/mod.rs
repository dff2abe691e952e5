//! Probes of this process, and its own metrics for Prometheus: `--health-listen`.
//!
//! ```text
//! main loop ─beat, ready→ Health ←─ /livez, /readyz, grpc.health.v1 ─ kubelet
//!           statistics → instruments ←─ /metrics ─ Prometheus
//! ```
//!
//! Answers on a thread of its own, also while the main loop is busy. Nothing that it returns is secret: the
//! kubelet and Prometheus reach it from other machines, without a token.

mod listener;
mod routes;
mod state;

pub use self::listener::HealthListener;
pub use self::state::Health;
