//! An open experiment: its identity, its trace, and the placement of its spans.

use phasemeter_meter::units::Timestamp;

use super::attributes::Attributes;
use super::ids::{GpuKey, SpanId, Subject, TraceId};
use super::placement::{SpanPlacement, TraceMode};
use super::propagators::Propagators;
use super::trace_sampler::TraceSampler;
use super::traceparent::{TraceFlags, TraceParent, TraceState};
use crate::names::attribute;

/// The attribute that names the experiment.
pub const EXPERIMENT_ID: &str = attribute::EXPERIMENT_ID;

/// An open experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Its ID: as given, else the trace ID in hex. It is the same for all sessions.
    pub id: String,
    /// Its trace. A sidecar without a context has none; the traces of its sessions are derived from
    /// this ID.
    pub trace_id: TraceId,
    /// Its own span, if any.
    pub span_id: Option<SpanId>,
    /// The parent span; `None` at the root of a trace.
    pub parent: Option<SpanId>,
    /// The flags of the trace.
    pub flags: TraceFlags,
    /// The `tracestate` to propagate.
    pub state: Option<TraceState>,
    /// The `baggage` to propagate.
    pub baggage: Option<String>,
    /// Which contexts are passed to the command.
    pub propagators: Propagators,
    /// Decides whether the sessions' own traces are recorded.
    pub sampler: TraceSampler,
    /// Which traces its sessions are in.
    pub traces: TraceMode,
    /// Resource attributes of the workload, including `service.name`.
    pub attributes: Attributes,
    /// When it begins: in a log, at the first reading.
    pub first: Timestamp,
}

impl Experiment {
    /// The span that its children have as their parent; `None` if there is none.
    #[must_use]
    pub fn innermost(&self) -> Option<SpanId> {
        self.span_id.or(self.parent)
    }

    /// The same as a trace context.
    #[must_use]
    pub fn context(&self) -> Option<TraceParent> {
        let (trace_id, flags) = (self.trace_id, self.flags);
        self.innermost().map(|span_id| TraceParent { trace_id, span_id, flags })
    }

    /// Environment variables for a child process; `None` unsets a variable. Those without a
    /// propagator are left as they are.
    #[must_use]
    pub fn propagation_env(&self) -> Vec<(&'static str, Option<String>)> {
        let Propagators { trace_context, baggage } = self.propagators;
        let trace_context = trace_context.then(|| {
            [
                ("TRACEPARENT", self.context().map(|context| context.to_string())),
                ("TRACESTATE", self.state.as_ref().map(|state| state.as_str().to_owned())),
            ]
        });
        let baggage = baggage.then(|| ("BAGGAGE", self.baggage.clone()));
        trace_context.into_iter().flatten().chain(baggage).collect()
    }

    /// Placement of the experiment's own span, if any.
    #[must_use]
    pub fn placement(&self) -> Option<SpanPlacement> {
        let (trace_id, flags) = (self.trace_id, self.flags);
        let span = TraceParent { trace_id, span_id: self.span_id?, flags };
        Some(SpanPlacement { span, parent: self.parent, state: self.state.clone(), link: None })
    }

    /// Placement of an experiment that begins during this one: a child of the given context, else of this
    /// experiment's, else a trace of its own.
    #[must_use]
    pub fn nested(&self, given: Option<TraceParent>) -> SpanPlacement {
        let (trace_id, parent, flags) = match given.or_else(|| self.context()) {
            Some(context) => (context.trace_id, Some(context.span_id), context.flags),
            None => {
                let trace_id = TraceId::random();
                let sampled = self.sampler.samples(&trace_id, None);
                (trace_id, None, self.flags.with_sampled(sampled))
            }
        };
        let span = TraceParent { trace_id, span_id: SpanId::random(), flags };
        let state = self.state.clone().filter(|_| given.is_none());
        SpanPlacement { span, parent, state, link: None }
    }

    /// Placement of a session of this GPU that begins at `start`. It is linked to the previous one;
    /// the first session with a trace of its own is linked to the experiment's context.
    #[must_use]
    pub fn session(
        &self,
        gpu: &GpuKey,
        start: Timestamp,
        before: Option<TraceParent>,
    ) -> SpanPlacement {
        let is_shared = self.traces == TraceMode::Shared;
        let (trace_id, flags) = if is_shared {
            (self.trace_id, self.flags)
        } else {
            let trace_id = TraceId::for_session(&self.trace_id, gpu, start);
            let sampled = self.sampler.samples(&trace_id, None);
            // As random as the ID that it is derived from.
            (trace_id, self.flags.with_sampled(sampled))
        };
        let span_id = SpanId::from_content(&trace_id, &Subject::Session(gpu), start);
        SpanPlacement {
            span: TraceParent { trace_id, span_id, flags },
            parent: self.innermost().filter(|_| is_shared),
            state: self.state.clone().filter(|_| is_shared),
            link: before.or_else(|| self.context().filter(|_| !is_shared)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ExperimentKind, ExperimentRequest, Ratio, Root};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    fn gpu(id: &str) -> GpuKey {
        GpuKey { id: id.to_owned(), ordinal: 0 }
    }

    fn opened(request: ExperimentRequest, opening: ExperimentKind<'_>) -> Experiment {
        request.open(at(1), opening)
    }

    #[test]
    fn session_with_own_trace_links_to_previous() {
        let trace = TraceId::new([7; 16]).unwrap();
        let experiment = opened(ExperimentRequest::default(), ExperimentKind::Sidecar { trace });
        let first = experiment.session(&gpu("a"), at(1), None);
        assert_eq!((first.parent, first.link), (None, None));
        let next = experiment.session(&gpu("a"), at(2), Some(first.span));
        let other = experiment.session(&gpu("b"), at(1), None);
        assert_eq!((next.parent, next.link), (None, Some(first.span)));
        let traces = [first, next, other].map(|placement| placement.span.trace_id);
        assert!(traces[0] != traces[1] && traces[0] != traces[2] && traces[1] != traces[2]);
        assert!(!traces.contains(&trace));
    }

    #[test]
    fn sessions_are_children_of_context_unless_per_session() {
        let given: TraceParent = PARENT.replace("-00", "-01").parse().unwrap();
        let trace = TraceId::new([7; 16]).unwrap();
        let request = ExperimentRequest::default().under(given);
        let shared = opened(request.clone(), ExperimentKind::Sidecar { trace });
        let first = shared.session(&gpu("a"), at(1), None);
        assert_eq!((first.span.trace_id, first.parent), (given.trace_id, Some(given.span_id)));
        let next = shared.session(&gpu("a"), at(2), Some(first.span));
        assert_eq!((next.parent, next.link), (Some(given.span_id), Some(first.span)));

        let request = ExperimentRequest { traces: TraceMode::PerSession, ..request };
        let own = opened(request.clone(), ExperimentKind::Sidecar { trace }).session(
            &gpu("a"),
            at(1),
            None,
        );
        assert_ne!(own.span.trace_id, given.trace_id);
        assert_eq!((own.parent, own.link), (None, Some(given)));
        // A command's session is linked to the span of the command.
        let command = opened(request, ExperimentKind::Command { trace });
        let own = command.session(&gpu("a"), at(1), None);
        assert_eq!((own.parent, own.link), (None, command.context()));
    }

    /// An unsampled context does not affect a trace of its own.
    #[test]
    fn session_traces_are_sampled_independently() {
        let trace = TraceId::new([7; 16]).unwrap();
        let request = |sampler| ExperimentRequest {
            traces: TraceMode::PerSession,
            sampler,
            ..ExperimentRequest::default().under(PARENT.parse().unwrap())
        };
        let sampled = |sampler| {
            let experiment = opened(request(sampler), ExperimentKind::Sidecar { trace });
            let is_sampled = |hour| {
                experiment.session(&gpu("a"), at(hour * 3_600), None).span.flags.is_sampled()
            };
            (1..=100_u64).filter(|hour| is_sampled(*hour)).count()
        };
        assert_eq!(sampled(TraceSampler::default()), 100);
        let half = Root::TraceIdRatio(Ratio::new(0.5).unwrap());
        assert!((30..70).contains(&sampled(TraceSampler { parent_based: true, root: half })));
        let shared =
            ExperimentRequest { traces: TraceMode::Shared, ..request(TraceSampler::default()) };
        let shared = opened(shared, ExperimentKind::Sidecar { trace });
        assert!(!shared.session(&gpu("a"), at(1), None).span.flags.is_sampled());
    }
}
