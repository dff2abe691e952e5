//! Simulated nodes, scraped by a real Collector whose load-balancing exporter sends each of them to one of several
//! gateways, which export to a real Collector with a file per gateway.
//!
//! ```text
//!                     ┌→ phasemeter gateway 0 ─┐
//! nodes ─→ otelcol ───┼→ phasemeter gateway 1 ─┼→ otelcol ─→ a file per gateway: what passed, and its sums
//!            └→ file  └→ phasemeter gateway 2 ─┘
//! ```
//!
//! The file of the first Collector has all readings; from what passed each gateway follow the stays of a node there, and
//! from these all accounts, by definition. What no stay has is the gap.

mod audit;
mod balancing;
mod handover;
mod killed;
mod measured;
mod stays;
