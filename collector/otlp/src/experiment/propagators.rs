//! Which contexts are taken from the environment, and passed to the command.

/// The propagators of `OTEL_PROPAGATORS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Propagators {
    /// W3C Trace Context: `TRACEPARENT` and `TRACESTATE`.
    pub trace_context: bool,
    /// W3C Baggage: `BAGGAGE`.
    pub baggage: bool,
}

/// Both.
impl Default for Propagators {
    fn default() -> Self {
        Self { trace_context: true, baggage: true }
    }
}
