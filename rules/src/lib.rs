//! The WebAssembly host of Phasemeter: runs pricing and remediation policies that nobody has to
//! trust.
//!
//! ```text
//! Candidate → digest, signature → imports → machine code → trial → settings → self-test → Policy
//! Window → Policy → checked Recommendations, or a Fault
//! ```
//!
//! A policy is a component that imports nothing but a function to log with. Every run has a fresh
//! store, fuel, a deadline, and limits on memory, tables and output; what it returns is checked
//! before it is believed. A [`Fault`](fault::Fault) costs that policy that verdict, nothing else.
//! [`generation::Generations`] swaps whole sets of policies while others still run.

// What is asked and answered.
pub mod lever;
pub mod manifest;
pub mod quote;
pub mod recommendation;
pub mod schema;
pub mod settings;
pub mod window;

// How both are kept in files.
pub mod recorded;

// What goes wrong.
pub mod fault;

// How a policy is run.
mod contract;
mod engine;
pub mod limits;
pub mod policy;
mod room;
mod ticker;

// How a file becomes a policy.
pub mod artifact;
pub mod binary;
mod cgroup;
pub mod compile;
pub mod digest;
pub mod host;
pub mod signature;

// How policies are swapped.
pub mod folder;
pub mod generation;
pub mod watch;

pub use engine::RuntimeError;
pub use room::{Level, Log};
