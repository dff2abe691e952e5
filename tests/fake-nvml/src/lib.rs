//! A scripted `libnvidia-ml.so.1`: GPUs, faults and time as a test wants them.
//!
//! ```text
//! script (TOML, nvidia-smi logs) → Model: Track (the truth) → Device (what a driver makes of it)
//!                                                              → ffi (the C library)
//! ```
//!
//! All values are pure functions of the script and the time since its start. Built as a shared
//! library it serves whatever speaks NVML (the Rust wrapper, `pynvml` and what stands on it); as a
//! Rust library it offers the same model, so that a test can ask what was true. Integration tests
//! begin with [`Fake::install`].
//!
//! `example.toml` beside this crate is a script with every key, explained.

pub mod control;
pub mod device;
pub mod fault;
mod ffi;
pub mod install;
pub mod model;
pub mod refusal;
pub mod replay;
pub mod script;
pub mod track;
pub mod truth;

pub use control::Control;
pub use install::Fake;
pub use model::Model;

/// Every function that the library exports, one a line.
pub const SYMBOLS: &str = include_str!("../symbols.txt");
