//! What is known of an experiment before its first reading, and how it is opened.

use phasemeter_meter::units::Timestamp;

use super::attributes::Attributes;
use super::ids::{SpanId, Subject, TraceId, uuid_from_content};
use super::open::{EXPERIMENT_ID, Experiment};
use super::placement::TraceMode;
use super::propagators::Propagators;
use super::trace_sampler::TraceSampler;
use super::traceparent::{TraceFlags, TraceParent, TraceState};

/// The attribute that names the workload.
const SERVICE_NAME: &str = "service.name";

/// The attribute that identifies an instance of the workload.
pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";

/// The name of an unnamed workload, as OpenTelemetry defines it.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// What is known of an experiment before its first reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExperimentRequest {
    /// The ID given by the user.
    pub id: Option<String>,
    /// The parent span.
    pub parent: Option<TraceParent>,
    /// The parent's `tracestate`.
    pub state: Option<TraceState>,
    /// The `baggage`, propagated unchanged.
    pub baggage: Option<String>,
    /// Which contexts are passed to the command.
    pub propagators: Propagators,
    /// Decides whether its trace is recorded.
    pub sampler: TraceSampler,
    /// Which traces its sessions are in.
    pub traces: TraceMode,
    /// Resource attributes of the workload.
    pub attributes: Attributes,
    /// Name of the executable that names an unnamed workload.
    pub executable: Option<String>,
}

impl ExperimentRequest {
    /// The same with another parent; the previous parent's `tracestate` is dropped.
    #[must_use]
    pub fn under(self, parent: TraceParent) -> Self {
        Self { parent: Some(parent), state: None, ..self }
    }

    /// Opens the experiment, which fixes its IDs. `first`: when it begins.
    #[must_use]
    pub fn open(self, first: Timestamp, opening: ExperimentKind<'_>) -> Experiment {
        let mut attributes = self.attributes;
        let given = self.id.or_else(|| attributes.get(EXPERIMENT_ID).cloned());
        let given = given.filter(|id| !id.is_empty());
        let (trace, flags, own_span) = match opening {
            ExperimentKind::Log { gpus } => {
                let trace = TraceId::from_content(given.as_deref(), first, gpus);
                let instance = || uuid_from_content("instance", &[&trace.to_string()]);
                attributes.entry(SERVICE_INSTANCE_ID.to_owned()).or_insert_with(instance);
                (trace, TraceFlags::default(), true)
            }
            ExperimentKind::Command { trace } => (trace, TraceFlags::RANDOM, true),
            ExperimentKind::Sidecar { trace } => (trace, TraceFlags::RANDOM, false),
        };
        let trace_id = self.parent.map_or(trace, |parent| parent.trace_id);
        let traces =
            if own_span || self.parent.is_some() { self.traces } else { TraceMode::PerSession };
        let sampled =
            self.sampler.samples(&trace_id, self.parent.map(|parent| parent.flags.is_sampled()));
        attributes.entry(SERVICE_NAME.to_owned()).or_insert_with(|| match &self.executable {
            Some(executable) => format!("{UNKNOWN_SERVICE}:{executable}"),
            None => UNKNOWN_SERVICE.to_owned(),
        });
        Experiment {
            id: given.unwrap_or_else(|| trace_id.to_string()),
            trace_id,
            span_id: own_span.then(|| SpanId::from_content(&trace_id, &Subject::Experiment, first)),
            parent: self.parent.map(|parent| parent.span_id),
            flags: self.parent.map_or(flags, |parent| parent.flags).with_sampled(sampled),
            state: self.state,
            baggage: self.baggage,
            propagators: self.propagators,
            sampler: self.sampler,
            traces,
            attributes,
            first,
        }
    }
}

/// The kind of experiment. It determines the trace if none is given, and whether the experiment has
/// a span of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentKind<'a> {
    /// A log. The same log opens the same trace, since its ID is derived from the content.
    Log {
        /// The [`gpu_id`]s seen within the allowed lateness after the first reading.
        gpus: &'a [&'a str],
    },
    /// A command, whose end is the end of the experiment.
    Command {
        /// The trace ID if none is given; random.
        trace: TraceId,
    },
    /// A sidecar. It does not know when its workload ends, so there is no span of its own.
    Sidecar {
        /// The trace ID if none is given; random.
        trace: TraceId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{GpuKey, Root};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn open(request: ExperimentRequest) -> Experiment {
        opened(request, ExperimentKind::Log { gpus: &["GPU-0"] })
    }

    fn opened(request: ExperimentRequest, opening: ExperimentKind<'_>) -> Experiment {
        request.open(Timestamp::from_millis(1_000).unwrap(), opening)
    }

    #[test]
    fn default_experiment_id_is_trace_id() {
        let experiment = open(ExperimentRequest::default());
        assert_eq!(experiment.id, experiment.trace_id.to_string());
        assert_eq!(experiment.parent, None);
        assert!(experiment.flags.is_sampled());
        assert_eq!(experiment.attributes[SERVICE_NAME], UNKNOWN_SERVICE);
        assert_eq!(experiment, open(ExperimentRequest::default()));
    }

    /// The instance ID of a log follows from its content, whatever its trace; a given one is kept.
    #[test]
    fn instance_id_of_log_is_stable() {
        let instance = |request| open(request).attributes[SERVICE_INSTANCE_ID].clone();
        let first = instance(ExperimentRequest::default());
        assert_eq!(first, instance(ExperimentRequest::default().under(PARENT.parse().unwrap())));
        let named = ExperimentRequest { id: Some("tuning".into()), ..Default::default() };
        assert_ne!(first, instance(named));
        let given = Attributes::from([(SERVICE_INSTANCE_ID.into(), "3".into())]);
        assert_eq!(instance(ExperimentRequest { attributes: given, ..Default::default() }), "3");
    }

    #[test]
    fn given_id_determines_trace_id() {
        let named = ExperimentRequest { id: Some("tuning".into()), ..Default::default() };
        let by_attribute = ExperimentRequest {
            attributes: Attributes::from([(EXPERIMENT_ID.into(), "tuning".into())]),
            ..Default::default()
        };
        assert_eq!(open(named.clone()).id, "tuning");
        assert_eq!(open(named.clone()).trace_id, open(by_attribute).trace_id);
        assert_ne!(open(named).trace_id, open(ExperimentRequest::default()).trace_id);
    }

    #[test]
    fn parent_determines_trace() {
        let parent: TraceParent = PARENT.parse().unwrap();
        let request = ExperimentRequest {
            state: "a=1".parse().ok(),
            baggage: Some("user=ada".into()),
            ..Default::default()
        };
        let experiment = open(ExperimentRequest { parent: Some(parent), ..request.clone() });
        assert_eq!(experiment.trace_id, parent.trace_id);
        assert_eq!(experiment.parent, Some(parent.span_id));
        let own = experiment.span_id.unwrap();
        assert_ne!(own, parent.span_id);
        let [child, state, baggage] = experiment.propagation_env().try_into().unwrap();
        let expected = PARENT.replace("b7ad6b7169203331", &own.to_string());
        assert_eq!(child, ("TRACEPARENT", Some(expected)));
        assert_eq!(state, ("TRACESTATE", Some("a=1".into())));
        assert_eq!(baggage, ("BAGGAGE", Some("user=ada".into())));

        let other = open(request.under(parent));
        assert_eq!(other.state, None, "a state belongs to its own parent");
    }

    #[test]
    fn live_experiment_uses_given_trace() {
        let trace = TraceId::new([7; 16]).unwrap();
        let command = opened(ExperimentRequest::default(), ExperimentKind::Command { trace });
        assert_eq!((command.trace_id, command.parent), (trace, None));
        assert!(command.span_id.is_some());

        let sidecar = opened(ExperimentRequest::default(), ExperimentKind::Sidecar { trace });
        assert_eq!((sidecar.trace_id, sidecar.innermost()), (trace, None));
        let parent: TraceParent = PARENT.parse().unwrap();
        let under = ExperimentRequest::default().under(parent);
        let sidecar = opened(under, ExperimentKind::Sidecar { trace });
        assert_eq!((sidecar.trace_id, sidecar.span_id), (parent.trace_id, None));
        assert_eq!(sidecar.innermost(), Some(parent.span_id));
    }

    #[test]
    fn unnamed_workload_is_named_by_its_executable() {
        let executable = Some("train.py".to_owned());
        let unnamed = ExperimentRequest { executable, ..Default::default() };
        let attributes = open(unnamed.clone()).attributes;
        assert_eq!(attributes[SERVICE_NAME], "unknown_service:train.py");
        let given = Attributes::from([(SERVICE_NAME.into(), "trainer".into())]);
        let named = open(ExperimentRequest { attributes: given, ..unnamed });
        assert_eq!(named.attributes[SERVICE_NAME], "trainer");
    }

    /// W3C Trace Context Level 2: a parent's flag is kept, and an ID derived from a log is not
    /// random.
    #[test]
    fn only_random_trace_ids_have_the_random_flag() {
        let trace = TraceId::random();
        let random = |request: ExperimentRequest, kind| opened(request, kind).flags.bits() & 0b10;
        let (command, sidecar) =
            (ExperimentKind::Command { trace }, ExperimentKind::Sidecar { trace });
        let log = ExperimentKind::Log { gpus: &["GPU-0"] };
        for (kind, expected) in [(command, 0b10), (sidecar, 0b10), (log, 0)] {
            assert_eq!(random(ExperimentRequest::default(), kind), expected, "{kind:?}");
            for flags in ["01", "03"] {
                let parent = PARENT.replace("-01", &format!("-{flags}")).parse().unwrap();
                let given = u8::from(flags == "03") << 1;
                assert_eq!(random(ExperimentRequest::default().under(parent), kind), given);
            }
        }
        let experiment = opened(ExperimentRequest::default(), command);
        let traceparent = experiment.propagation_env().remove(0).1;
        assert!(traceparent.unwrap().ends_with("-03"));
        let gpu = GpuKey { id: "GPU-0".to_owned(), ordinal: 0 };
        let own = opened(ExperimentRequest::default(), sidecar);
        assert_eq!(own.session(&gpu, Timestamp::default(), None).span.flags.bits(), 0b11);
    }

    #[test]
    fn unsampled_parent_has_unsampled_children() {
        let parent = TraceParent { flags: TraceFlags::RANDOM, ..PARENT.parse().unwrap() };
        let request = ExperimentRequest::default().under(parent);
        assert!(!open(request.clone()).flags.is_sampled());
        let always = TraceSampler { parent_based: false, root: Root::AlwaysOn };
        let experiment = open(ExperimentRequest { sampler: always, ..request });
        assert_eq!(experiment.flags.bits(), 0b11);
    }
}
