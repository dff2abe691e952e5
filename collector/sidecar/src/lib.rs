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
pub mod clock;
pub mod command;
pub mod durations;
pub mod environment;
pub mod experiment;
pub mod host;
pub mod otlp;
pub mod pipeline;
pub mod pricing;
pub mod report;
pub mod sampler;
pub mod source;
pub mod telemetry;
