//! Phasemeter's policy host: runs untrusted pricing and remediation policies in WebAssembly.
//!
//! ```text
//! Candidate → digest, signature → imports, machine code → trial → settings → self-test → Policy
//! Window → Policy → validated Recommendations, or a PolicyError
//! ```
//!
//! A policy is a component whose only import is a log function. Every evaluation has a fresh store,
//! fuel, a deadline, and limits on memory, tables and output, and its output is validated before it
//! is used. A [`PolicyError`](error::PolicyError) costs that policy that evaluation, nothing else.
//! [`generation::Generations`] replaces whole sets of policies while evaluations continue.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

// Inputs and outputs of policies.
pub mod lever;
pub mod manifest;
pub mod quote;
pub mod recommendation;
pub mod schema;
pub mod settings;
pub mod suppositions;
pub mod window;
mod window_holder;
mod window_load;
mod window_sensors;
pub mod workload;

// Inputs and results in files.
pub mod fixture;
mod fixture_value;

// Errors, and text of others.
pub mod error;

// Evaluation.
mod contract;
mod engine;
mod epoch;
mod guest_state;
pub mod limits;
pub mod policy;

// Loading.
pub mod artifact;
mod candidate;
pub mod cgroup;
#[cfg_attr(not(feature = "compiler"), path = "codegen/absent.rs")]
mod codegen;
pub mod compile;
pub mod confinement;
pub mod digest;
pub mod embedded;
pub mod host;
mod private_dir;
pub mod signature;
mod version;
pub mod wasm_info;

// Policy directories and reloading.
pub mod generation;
pub mod policy_dir;
pub mod watch;

pub use engine::RuntimeError;
pub use guest_state::{Level, Log};
