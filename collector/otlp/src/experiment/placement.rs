//! Where spans stand: in which trace, under which span, after which.
//!
//! The sessions of a GPU stand under its experiment, or each is a trace of its own: where nobody can
//! say when the experiment will end, nor under which span it is, a trace would never be complete.
//! This room must not know what a span says.

use phasemeter_meter::units::Timestamp;

use super::ids::{GpuKey, SpanId, Subject};
use super::traceparent::{TraceParent, TraceState};

/// Which traces the sessions of an experiment stand in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// That of the experiment, where it has one.
    #[default]
    Shared,
    /// Each in its own.
    PerSession,
}

/// Where a span stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanPlacement {
    /// The span: its trace, its id, and whether it is recorded.
    pub span: TraceParent,
    /// The span it hangs under; `None` at the root of its trace.
    pub parent: Option<SpanId>,
    /// What is passed along with the trace.
    pub state: Option<TraceState>,
    /// The span that it follows, and does not hang under.
    pub link: Option<TraceParent>,
}

impl SpanPlacement {
    /// Of a phase of this GPU, in this session of it.
    #[must_use]
    pub fn phase(&self, gpu: &GpuKey, start: Timestamp) -> Self {
        Self {
            span: self.phase_span(gpu, start),
            parent: Some(self.span.span_id),
            state: self.state.clone(),
            link: None,
        }
    }

    /// The span of a phase of this GPU, in this session of it.
    #[must_use]
    pub fn phase_span(&self, gpu: &GpuKey, start: Timestamp) -> TraceParent {
        let span_id = SpanId::of_content(&self.span.trace_id, &Subject::Phase(gpu), start);
        TraceParent { span_id, ..self.span }
    }
}
