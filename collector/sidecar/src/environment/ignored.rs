//! Variables that are set and ignored, and why.
//!
//! Must not depend on the meaning of a variable.

use phasemeter_otlp::experiment::{AttributesError, TraceParentError, TraceStateError};

/// A variable that is ignored, at least in part, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Ignored {
    /// The trace has no parent.
    #[error("TRACEPARENT is ignored: {0}")]
    TraceParent(#[source] TraceParentError),
    /// Spans have no trace state.
    #[error("TRACESTATE is ignored: {0}")]
    TraceState(#[source] TraceStateError),
    /// The workload has no such attributes.
    #[error("OTEL_RESOURCE_ATTRIBUTES is ignored: {0}")]
    ResourceAttributes(#[source] AttributesError),
    /// The default is used.
    #[error("{variable} is ignored: invalid value {value:?}: expected {expected}; using {default}")]
    Value {
        /// The variable.
        variable: &'static str,
        /// The beginning of its value.
        value: String,
        /// The accepted values.
        expected: &'static str,
        /// The value used instead.
        default: &'static str,
    },
    /// An element of a list is ignored.
    #[error("{variable}: {name:?} is ignored: not supported: expected {expected}")]
    Element {
        /// The variable.
        variable: String,
        /// The beginning of the element.
        name: String,
        /// The accepted elements.
        expected: &'static str,
    },
    /// The variable has no effect.
    #[error("{0} is ignored: not supported")]
    Unsupported(&'static str),
}
