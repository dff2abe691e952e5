//! Experiments: whose time and money it is, and the trace in which that is told.
//!
//! An experiment is asked for before anything is read. That of a log is opened when its first
//! readings are there, since its trace id may follow from them; a live one at once, since a command
//! is told of it before it starts. This room must not know how a trace is sent.

mod attributes;
mod ids;
mod open;
mod placement;
mod request;
mod trace_sampler;
mod traceparent;

pub use attributes::{Attributes, AttributesError, parse as parse_attributes};
pub use ids::{GpuKey, SpanId, Subject, TraceId, gpu_id};
pub use open::{EXPERIMENT_ID, Experiment};
pub use placement::{SpanPlacement, TraceMode};
pub use request::{ExperimentKind, ExperimentRequest};
pub use trace_sampler::{Ratio, Root, TraceSampler};
pub use traceparent::{TraceFlags, TraceParent, TraceParentError, TraceState, TraceStateError};
