//! Tests on a real Kubernetes node: fake driver, device plugin, DRA driver, the binary in a container.
//!
//! `make test-kubernetes` starts the node and runs them in its namespaces. `PHASEMETER_NODE` is then its directory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

// Test support.
mod image;
mod node;
mod page;
mod plugin;
mod release;

// Tests.
mod agent;
mod chart;
mod claims;
mod container;
mod device_plugin;
mod install;
mod metering;
mod ready;
