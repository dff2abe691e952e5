//! Experiments: the workload's identity and its trace.
//!
//! An experiment is requested before anything is read. That of a log is opened once its first
//! readings are known, since its trace ID can be derived from them; a live one at once, since the
//! command inherits it.

mod attributes;
mod ids;
mod open;
mod placement;
mod propagators;
mod request;
mod trace_sampler;
mod traceparent;

pub use attributes::{Attributes, AttributesError, parse as parse_attributes};
pub use ids::{GpuKey, Id, SpanId, Subject, TraceId, gpu_id, uuid, uuid_from_content};
pub use open::{EXPERIMENT_ID, Experiment};
pub use placement::{SpanPlacement, TraceMode};
pub use propagators::Propagators;
pub use request::{ExperimentKind, ExperimentRequest, SERVICE_INSTANCE_ID};
pub use trace_sampler::{Ratio, Root, TraceSampler};
pub use traceparent::{TraceFlags, TraceParent, TraceParentError, TraceState, TraceStateError};
