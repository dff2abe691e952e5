//! An open experiment: its identity, its trace, and the placement of its spans.

use phasemeter_meter::units::Timestamp;

use super::attributes::Attributes;
use super::ids::{GpuKey, SpanId, Subject, TraceId};
use super::placement::{SpanPlacement, TraceMode};
use super::trace_sampler::TraceSampler;
use super::traceparent::{TraceFlags, TraceParent, TraceState};

/// The attribute that names the experiment.
pub const EXPERIMENT_ID: &str = "phasemeter.experiment.id";

/// An experiment in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Its id: as given, else the trace id in hex digits. It stays the same over all sessions.
    pub id: String,
    /// The trace it is told in. Without a context there is none for a sidecar: then those of its
    /// sessions follow from it.
    pub trace_id: TraceId,
    /// Its own span, where it has one.
    pub span_id: Option<SpanId>,
    /// The span it hangs under; `None` at the root of a trace.
    pub parent: Option<SpanId>,
    /// The flags of the trace.
    pub flags: TraceFlags,
    /// What is passed along with the trace.
    pub state: Option<TraceState>,
    /// What the workload's services tell each other.
    pub baggage: Option<String>,
    /// Whether the traces of its sessions are recorded, where they have their own.
    pub sampler: TraceSampler,
    /// Which traces its sessions stand in.
    pub traces: TraceMode,
    /// What describes the workload; it has a `service.name`.
    pub attributes: Attributes,
    /// Where it begins: in a log, at the first reading.
    pub first: Timestamp,
}

impl Experiment {
    /// The span that what belongs to it hangs under; `None` where there is none.
    #[must_use]
    pub fn innermost(&self) -> Option<SpanId> {
        self.span_id.or(self.parent)
    }

    /// The same with its trace.
    #[must_use]
    pub fn context(&self) -> Option<TraceParent> {
        let (trace_id, flags) = (self.trace_id, self.flags);
        self.innermost().map(|span_id| TraceParent { trace_id, span_id, flags })
    }

    /// What a child process finds in its environment; `None`: nothing of that name.
    #[must_use]
    pub fn propagation_env(&self) -> [(&'static str, Option<String>); 3] {
        [
            ("TRACEPARENT", self.context().map(|context| context.to_string())),
            ("TRACESTATE", self.state.as_ref().map(|state| state.as_str().to_owned())),
            ("BAGGAGE", self.baggage.clone()),
        ]
    }

    /// Of the experiment's own span, where it has one.
    #[must_use]
    pub fn place(&self) -> Option<SpanPlacement> {
        let (trace_id, flags) = (self.trace_id, self.flags);
        let span = TraceParent { trace_id, span_id: self.span_id?, flags };
        Some(SpanPlacement { span, parent: self.parent, state: self.state.clone(), link: None })
    }

    /// Of a session of this GPU that begins at `start`. It is linked to the one `before` it; the
    /// first, where it is a trace of its own, to what the experiment is told in.
    #[must_use]
    pub fn session(
        &self,
        gpu: &GpuKey,
        start: Timestamp,
        before: Option<TraceParent>,
    ) -> SpanPlacement {
        let (trace_id, flags) = match self.traces {
            TraceMode::Shared => (self.trace_id, self.flags),
            TraceMode::PerSession => {
                let trace_id = TraceId::of_session(&self.trace_id, gpu, start);
                let sampled = self.sampler.samples(&trace_id, None);
                (trace_id, TraceFlags::default().with_sampled(sampled))
            }
        };
        let span_id = SpanId::of_content(&trace_id, &Subject::Session(gpu), start);
        let span = TraceParent { trace_id, span_id, flags };
        match self.traces {
            TraceMode::Shared => SpanPlacement {
                span,
                parent: self.innermost(),
                state: self.state.clone(),
                link: before,
            },
            TraceMode::PerSession => {
                let link = before.or_else(|| self.context());
                SpanPlacement { span, parent: None, state: None, link }
            }
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
    fn a_trace_a_session_is_linked_to_the_one_before() {
        let trace = TraceId::new([7; 16]).unwrap();
        let experiment = opened(ExperimentRequest::default(), ExperimentKind::Sidecar { trace });
        let first = experiment.session(&gpu("a"), at(1), None);
        assert_eq!((first.parent, first.link), (None, None));
        let next = experiment.session(&gpu("a"), at(2), Some(first.span));
        let other = experiment.session(&gpu("b"), at(1), None);
        assert_eq!((next.parent, next.link), (None, Some(first.span)));
        let traces = [first, next, other].map(|place| place.span.trace_id);
        assert!(traces[0] != traces[1] && traces[0] != traces[2] && traces[1] != traces[2]);
        assert!(!traces.contains(&trace));
    }

    #[test]
    fn under_a_context_sessions_are_its_children_unless_they_are_to_have_their_own_trace() {
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
        // A command's session is linked to the span that the command hangs under.
        let command = opened(request, ExperimentKind::Command { trace });
        let own = command.session(&gpu("a"), at(1), None);
        assert_eq!((own.parent, own.link), (None, command.context()));
    }

    /// A context that is not recorded says nothing of a trace that is not its own.
    #[test]
    fn each_trace_is_sampled_on_its_own() {
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
