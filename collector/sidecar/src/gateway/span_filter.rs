//! Chooses the spans that are priced, and reads what their price depends on.
//!
//! Must not depend on how spans wait.

use std::borrow::Cow;
use std::sync::Arc;

use phasemeter_attribution::directory::{Pod, ResourceIdentity};
use phasemeter_attribution::selection::Selection;
use phasemeter_attribution::{AdjustedCount, ChosenSpan, GpuSet, SpanKey};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::receiver::{
    HeldSpan, Received, ResourceView, SpanView, TakenSpans, take_spans,
};

use super::intake::OWN_SCOPE;
use super::replicas::Replicas;

/// The beginning of the attributes of a price.
const PRICE: &str = "phasemeter.span.";

/// Which spans are priced, and by which weight.
#[derive(Clone, Debug, Default)]
pub struct SpanFilter {
    /// Rules; a span must match one of them.
    pub selections: Vec<Selection>,
    /// The attribute with the weight of a span.
    pub weight: Option<String>,
}

/// The spans of a request.
#[derive(Debug)]
pub struct ReceivedSpans {
    /// Those that are priced. They have been taken out of the request.
    pub chosen: Vec<CandidateSpan>,
    /// The others, with their parents.
    pub others: Vec<(SpanKey, Option<[u8; 8]>)>,
    /// Number of spans that would have been chosen, but whose resource and scope are too large.
    pub too_large: u64,
    /// Number of spans that would have been chosen, but arrived with a price.
    pub priced_before: u64,
    /// Their bytes count as in flight as long as they are not held elsewhere.
    _in_flight: Received,
}

/// A span that is to be priced.
#[derive(Debug)]
pub struct CandidateSpan {
    /// The span as it arrived; `None` if another gateway passes it on.
    pub held: Option<HeldSpan>,
    /// What its price depends on, but for the GPUs.
    pub span: ChosenSpan,
    /// What identifies its GPUs: the same for all spans of one resource.
    pub resource: Arc<OwnedIdentity>,
}

/// The attributes of a resource that identify GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedIdentity {
    hw_id: Option<String>,
    pid: Option<u32>,
    pod: Pod,
    host: Option<String>,
}

impl OwnedIdentity {
    fn of(resource: ResourceView<'_>) -> Self {
        let text = |key: &str| resource.text(key).map(Cow::into_owned);
        Self {
            hw_id: text("hw.id"),
            pid: resource.text("process.pid").and_then(|pid| pid.parse().ok()),
            pod: Pod {
                uid: text("k8s.pod.uid"),
                namespace: text("k8s.namespace.name"),
                name: text("k8s.pod.name"),
            },
            host: text("host.name"),
        }
    }

    /// The attributes.
    #[must_use]
    pub fn as_ref(&self) -> ResourceIdentity<'_> {
        let Self { hw_id, pid, pod, host } = self;
        ResourceIdentity {
            hw_id: hw_id.as_deref(),
            pid: *pid,
            pod: Some(pod),
            host: host.as_deref(),
        }
    }
}

impl ReceivedSpans {
    /// Converts the times of spans, which are wall time, to the time of a run.
    #[must_use]
    pub fn at(mut self, wall: WallOffset) -> Self {
        for CandidateSpan { span, .. } in &mut self.chosen {
            span.from = wall.instant(span.from);
            span.to = span.to.map(|to| wall.instant(to));
        }
        self
    }
}

impl SpanFilter {
    /// Whether no span is priced.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.selections.is_empty()
    }

    /// Takes the chosen spans out of a request of spans. Returns what is left, if anything.
    #[must_use]
    pub fn split(
        &self,
        request: Received,
        replicas: &Replicas,
    ) -> (Option<Received>, ReceivedSpans) {
        let in_flight = request.clone();
        let (mut others, mut priced_before) = (Vec::new(), 0);
        let mut identity = |resource: ResourceView<'_>| {
            let passes_here = replicas.is_single() || replicas.passes_on(&resource.id());
            (Arc::new(OwnedIdentity::of(resource)), passes_here)
        };
        let mut choose = |span: &SpanView<'_>, resource: &(Arc<OwnedIdentity>, bool)| {
            let key = SpanKey { trace: span.trace_id()?, span: span.span_id()? };
            // One trace must not sum money twice: another gateway has priced it.
            let chosen = self.choose(key, span).filter(|_| {
                let has_price = span.has_prefix(PRICE);
                priced_before += u64::from(has_price);
                !has_price
            });
            if chosen.is_none() {
                others.push((key, span.parent_id()));
            }
            Some((chosen?, resource.clone()))
        };
        let TakenSpans { rest, spans, too_large } = take_spans(request, &mut identity, &mut choose);
        let candidate = |(held, (span, (resource, passes_here)))| CandidateSpan {
            held: Some(held).filter(|_| passes_here),
            span,
            resource,
        };
        let chosen = spans.into_iter().map(candidate).collect();
        (rest, ReceivedSpans { chosen, others, too_large, priced_before, _in_flight: in_flight })
    }

    fn choose(&self, key: SpanKey, span: &SpanView<'_>) -> Option<ChosenSpan> {
        // Spans of Phasemeter have costs.
        if span.scope().starts_with(OWN_SCOPE) {
            return None;
        }
        let attribute = |key: &str| span.text(key).or_else(|| span.resource().text(key));
        if !self.selections.iter().any(|it| it.matches(span.name(), attribute)) {
            return None;
        }
        let weight = self.weight.as_deref().and_then(|weight| span.number(weight));
        let (parent, from, to) = (span.parent_id(), span.start()?, span.end());
        let adjusted_count = AdjustedCount::from_trace_state(span.trace_state());
        Some(ChosenSpan { key, parent, from, to, weight, adjusted_count, gpus: GpuSet::All })
    }
}
