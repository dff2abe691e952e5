//! Checks of the repository itself: names, layers, documented invariants, size of the demo.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod architecture;
mod constants;
mod crate_size;
mod demo_crates;
mod layering;
mod policy_constants;
mod registry;
#[path = "../registry/model.rs"]
mod registry_model;
mod repository;
mod simulator;
mod supply_chain;
mod tables;
mod wording;
