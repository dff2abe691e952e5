//! A scripted `libnvidia-ml.so.1`: tests choose GPUs, faults and time.
//!
//! ```text
//! script (TOML, nvidia-smi logs) → Model: Track (ground truth) → Device (reported values)
//!                                                               → ffi (the C library)
//! ```
//!
//! All values are pure functions of the script and the time since its start. The shared library
//! serves any NVML client (the Rust wrapper, `pynvml` and their users); the Rust library provides
//! the same model, so that a test can compare with the ground truth. Integration tests start with
//! [`Fake::install`].
//!
//! `example.toml` in this crate documents every key of a script.

pub mod control;
pub mod device;
pub mod error_code;
pub mod fault;
mod ffi;
pub mod install;
pub mod mig;
pub mod model;
pub mod replay;
pub mod script;
pub mod track;
pub mod truth;

pub use control::Control;
pub use install::{Fake, LOAD_VARIABLE};
pub use model::Model;

/// Every function that the library exports, one per line.
pub const SYMBOLS: &str = include_str!("../symbols.txt");
