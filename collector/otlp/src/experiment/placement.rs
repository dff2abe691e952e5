//! Placement of spans: their trace, parent and link.
//!
//! The sessions of a GPU are children of the experiment, or each is a trace of its own: if neither
//! the end of the experiment nor a parent is known, a shared trace would never be complete.

use phasemeter_meter::units::Timestamp;

use super::ids::{GpuKey, SpanId, Subject};
use super::traceparent::{TraceParent, TraceState};

/// Which traces the sessions of an experiment are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// The experiment's trace, if any.
    #[default]
    Shared,
    /// Each session in a trace of its own.
    PerSession,
}

/// Placement of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanPlacement {
    /// The span: its trace, its ID, and whether it is recorded.
    pub span: TraceParent,
    /// The parent span; `None` at the root of its trace.
    pub parent: Option<SpanId>,
    /// The `tracestate` to propagate.
    pub state: Option<TraceState>,
    /// A preceding span that is not the parent.
    pub link: Option<TraceParent>,
}

impl SpanPlacement {
    /// Placement of a phase of this GPU in this session.
    #[must_use]
    pub fn phase(&self, gpu: &GpuKey, start: Timestamp) -> Self {
        Self {
            span: self.phase_span(gpu, start),
            parent: Some(self.span.span_id),
            state: self.state.clone(),
            link: None,
        }
    }

    /// The span of a phase of this GPU in this session.
    #[must_use]
    pub fn phase_span(&self, gpu: &GpuKey, start: Timestamp) -> TraceParent {
        let span_id = SpanId::from_content(&self.span.trace_id, &Subject::Phase(gpu), start);
        TraceParent { span_id, ..self.span }
    }
}
