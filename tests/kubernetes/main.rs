//! Tests on a real Kubernetes node: fake driver, device plugin, DRA driver, the binary in a container.
//!
//! `make test-kubernetes` starts the node and runs them in its namespaces. `PHASEMETER_NODE` is then its directory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

// Test support.
mod backend;
mod first_format;
mod image;
#[path = "../collector/durable/message.rs"]
mod message;
mod node;
#[path = "../collector/otelcol.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod otelcol;
#[path = "../otlp/mod.rs"]
mod otlp;
#[path = "../collector/output.rs"]
mod output;
mod page;
mod plugin;
#[path = "../collector/durable/points.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod points;
mod release;
mod sent;
#[path = "../collector/server.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod server;
mod volume;

// Tests.
mod agent;
mod chart;
mod claims;
mod container;
mod device_plugin;
mod durable;
mod full;
mod headers;
mod install;
mod metering;
mod ready;
