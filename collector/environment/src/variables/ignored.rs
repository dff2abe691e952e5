//! Variables that are set and ignored, and why.

use std::borrow::Cow;

use phasemeter_otlp::experiment::{AttributesError, TraceParentError, TraceStateError};

/// A variable that is ignored, at least in part, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Ignored {
    /// The trace has no parent.
    #[error("TRACEPARENT: {0}")]
    TraceParent(#[source] TraceParentError),
    /// Spans have no trace state.
    #[error("TRACESTATE: {0}")]
    TraceState(#[source] TraceStateError),
    /// The workload has no such attributes.
    #[error("OTEL_RESOURCE_ATTRIBUTES: {0}")]
    ResourceAttributes(#[source] AttributesError),
    /// The default is used.
    #[error("{variable}: invalid value {value:?}: expected {expected}")]
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
    #[error("{variable}: {name:?} is not supported: expected {expected}")]
    Element {
        /// The variable.
        variable: String,
        /// The beginning of the element.
        name: String,
        /// The accepted elements.
        expected: &'static str,
    },
    /// The variable has no effect.
    #[error("{0}: not supported")]
    Unsupported(&'static str),
}

impl Ignored {
    /// What follows if the variable is not an error.
    #[must_use]
    pub fn consequence(&self) -> Cow<'static, str> {
        match self {
            Self::Value { default, .. } => format!("{default} is used").into(),
            Self::Element { .. } => "this part of it is ignored".into(),
            _ => "it is ignored".into(),
        }
    }

    /// Whether its value is invalid; one that has no effect may be valid for other programs.
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        !matches!(self, Self::Unsupported(_))
    }
}
