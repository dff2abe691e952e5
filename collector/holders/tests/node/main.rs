//! A node with a fake kubelet and API server, which speak the real protocols over real sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

mod api;
mod cases;
mod fake_api;
mod fake_kubelet;
mod kubelet;
mod pods;
