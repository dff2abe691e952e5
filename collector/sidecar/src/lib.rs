//! Phasemeter's shell: everything that may wait or fail. It brings readings in, and carries phases,
//! dollars and advice out; what they mean is decided in `phasemeter-meter`.
//!
//! ```text
//! source (sampler, clock) → pipeline → otlp, report
//!                           └ advice ┘
//! ```

#![forbid(unsafe_code)]

pub mod advice;
pub mod cli;
pub mod command;
pub mod environment;
pub mod host;
pub mod pipeline;
pub mod pricing;
pub mod report;
pub mod sampler;
pub mod telemetry;
