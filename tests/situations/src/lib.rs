//! Situations as tests: each file describes what some GPUs do, and what an expert would recommend.
//!
//! ```text
//! file ─→ Situation ─→ nvidia-smi log ─→ phasemeter audit ─→ Report ─→ compare ─→ Matrix
//! ```
//!
//! README.md defines the format.

#![forbid(unsafe_code)]

mod audit;
mod column;
mod compare;
mod expectation;
mod level;
mod lever;
mod load;
mod log;
mod matrix;
mod model;
mod observed;
mod prng;
mod report;
mod situation;
mod track;

pub use audit::{Audit, AuditError};
pub use compare::{Comparison, compare};
pub use load::{KINDS, LoadError, Situations};
pub use matrix::Matrix;
pub use observed::{Observed, PHASES};
pub use report::Report;
pub use situation::Situation;
