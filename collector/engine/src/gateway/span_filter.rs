//! Chooses the spans that are priced, and reads what their price depends on.

use std::borrow::Cow;
use std::sync::Arc;

use phasemeter_attribution::directory::{Pod, ResourceIdentity};
use phasemeter_attribution::selection::Selection;
use phasemeter_attribution::{AdjustedCount, ChosenSpan, GpuSet, SpanKey};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::experiment::SERVICE_INSTANCE_ID;
use phasemeter_otlp::names::attribute;
use phasemeter_receiver::{HeldSpan, ResourceView, SpanView, TakenSpans, take_spans};

use super::intake::OWN_SCOPE;
use super::meters::Claim;
use super::replicas::Replicas;
use super::sender_counts::SenderCounts;

/// The beginning of the attributes of a price.
pub(super) const PRICE: &str = "phasemeter.span.";

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
pub struct FilteredSpans {
    /// Those that are priced, or have a price that is to be checked. They have been taken out of the request.
    pub chosen: Vec<CandidateSpan>,
    /// The others, with their parents.
    pub others: Vec<(SpanKey, Option<[u8; 8]>)>,
    /// Number of spans that would have been chosen, but whose resource and scope are too large.
    pub too_large: u64,
    /// Spans that would have been chosen, but are Phasemeter's, by sender.
    pub exempt: SenderCounts,
    /// Their bytes count as in flight as long as they are not held elsewhere.
    _in_flight: EncodedRequest,
}

/// A span that is to be priced, or whose price is to be checked.
#[derive(Debug)]
pub struct CandidateSpan {
    /// The span as it arrived; `None` if another gateway passes it on.
    pub held: Option<HeldSpan>,
    /// What its price depends on, but for the GPUs; `None` if it was not chosen.
    pub span: Option<ChosenSpan>,
    /// Its ID and its parent, if it is valid.
    pub(super) key: Option<(SpanKey, Option<[u8; 8]>)>,
    /// That it has a price.
    pub(super) claim: Option<Claim>,
    /// What identifies its GPUs: the same for all spans of one resource.
    pub resource: Arc<OwnedIdentity>,
}

/// The attributes of a resource that identify GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedIdentity {
    hw_id: Option<String>,
    pid: Option<u32>,
    pod: Pod,
    job: Option<String>,
    host: Option<String>,
    instance: Option<String>,
    service: Option<String>,
}

impl OwnedIdentity {
    /// The name of the sender in messages.
    pub(super) fn sender(&self) -> &str {
        let names = [&self.host, &self.instance, &self.service];
        names.into_iter().flatten().next().map_or("", String::as_str)
    }

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
            job: text("slurm.job.id"),
            host: text("host.name"),
            instance: text(SERVICE_INSTANCE_ID),
            service: text("service.name"),
        }
    }

    /// A GPU, a pod or a host, as far as they are named.
    pub(super) fn named(hw_id: Option<String>, pod: Pod, host: Option<String>) -> Self {
        Self { hw_id, pod, host, ..Self::default() }
    }

    /// The attributes.
    #[must_use]
    pub fn as_ref(&self) -> ResourceIdentity<'_> {
        let Self { hw_id, pid, pod, job, host, .. } = self;
        ResourceIdentity {
            hw_id: hw_id.as_deref(),
            pid: *pid,
            pod: Some(pod),
            job: job.as_deref(),
            host: host.as_deref(),
        }
    }
}

impl FilteredSpans {
    /// Converts the times of spans, which are wall time, to the time of a run.
    #[must_use]
    pub fn at(mut self, wall: WallOffset) -> Self {
        for span in self.chosen.iter_mut().filter_map(|it| it.span.as_mut()) {
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
        request: EncodedRequest,
        replicas: &Replicas,
    ) -> (Option<EncodedRequest>, FilteredSpans) {
        let in_flight = request.clone();
        let (mut others, mut exempt) = (Vec::new(), SenderCounts::default());
        let mut identity = |resource: ResourceView<'_>| {
            let passes_here = replicas.is_single() || replicas.passes_on(&resource.id());
            (Arc::new(OwnedIdentity::of(resource)), passes_here)
        };
        let mut choose = |span: &SpanView<'_>, of_resource: &(Arc<OwnedIdentity>, bool)| {
            let (resource, passes_here) = of_resource;
            let ids = span.trace_id().zip(span.span_id());
            let key = ids.map(|(trace, span)| SpanKey { trace, span });
            let is_own = span.scope().starts_with(OWN_SCOPE);
            let is_selected = self.selects(span);
            if is_own && is_selected && *passes_here {
                exempt.add(resource.sender());
            }
            let chosen = key.filter(|_| is_selected && !is_own);
            let chosen = chosen.and_then(|key| self.chosen(key, span));
            let claim = span.has_prefix(PRICE).then(|| claim(span, is_own, resource));
            let key = key.map(|key| (key, span.parent_id()));
            if chosen.is_none() && claim.is_none() {
                others.extend(key);
                return None;
            }
            Some((chosen, key, claim, of_resource.clone()))
        };
        let TakenSpans { rest, spans, too_large } =
            take_spans(request, PRICE, &mut identity, &mut choose);
        let candidate = |(held, (span, key, claim, (resource, passes_here)))| CandidateSpan {
            held: Some(held).filter(|_| passes_here),
            span,
            key,
            claim,
            resource,
        };
        let chosen = spans.into_iter().map(candidate).collect();
        (rest, FilteredSpans { chosen, others, too_large, exempt, _in_flight: in_flight })
    }

    fn selects(&self, span: &SpanView<'_>) -> bool {
        let attribute = |key: &str| span.text(key).or_else(|| span.resource().text(key));
        self.selections.iter().any(|it| it.matches(span.name(), attribute))
    }

    fn chosen(&self, key: SpanKey, span: &SpanView<'_>) -> Option<ChosenSpan> {
        let weight = self.weight.as_deref().and_then(|weight| span.number(weight));
        let (parent, from, to) = (span.parent_id(), span.start()?, span.end());
        let adjusted_count = AdjustedCount::from_trace_state(span.trace_state());
        Some(ChosenSpan { key, parent, from, to, weight, adjusted_count, gpus: GpuSet::All })
    }
}

/// The claim of a span with a price. A span of Phasemeter's own is of the resource of its meter.
fn claim(span: &SpanView<'_>, is_own: bool, resource: &OwnedIdentity) -> Claim {
    let is_possible = |cost: Option<f64>| cost.is_some_and(|cost| cost >= 0.0 && cost.is_finite());
    let meter = match is_own {
        true => resource.instance.clone(),
        false => span.text(attribute::SPAN_METER).map(Cow::into_owned),
    };
    match meter.filter(|_| span.numbers(attribute::SPAN_COST).all(is_possible)) {
        Some(meter) => Claim::By(meter),
        None => Claim::Invalid,
    }
}
