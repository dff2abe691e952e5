//! Takes spans out of a request. No other byte of it changes.

use std::sync::Arc;

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::attributes::Attributes;
use super::filter::{Remaining, filter};
use super::held_span::{
    HeldSpan, MAX_HEAD, RESOURCE_SPANS, SCOPE_SPANS, SPANS, SpanGroup, without_attributes,
};
use super::span_view::{ResourceView, SpanView};
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::Signal;
use phasemeter_otlp::wire::without;

/// A request without the spans that were taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenSpans<T> {
    /// What is left, unless that is nothing.
    pub rest: Option<EncodedRequest>,
    /// The spans, each with what it was chosen for.
    pub spans: Vec<(HeldSpan, T)>,
    /// Number of spans that would have been taken, but whose resource and scope are larger than 256 KiB.
    /// They are in the rest.
    pub too_large: u64,
}

/// Takes the spans for which `choose` returns a value out of a request of spans. It is given what
/// `of_resource` returned, once, for the resource of the span. Of those that would have been taken, but cannot be,
/// attributes whose keys begin with `unproved` are removed.
pub fn take_spans<R, T>(
    request: EncodedRequest,
    unproved: &str,
    of_resource: &mut dyn FnMut(ResourceView<'_>) -> R,
    choose: &mut dyn FnMut(&SpanView<'_>, &R) -> Option<T>,
) -> TakenSpans<T> {
    let mut taking = Taking { unproved, of_resource, choose, spans: Vec::new(), too_large: 0 };
    let remaining = match request.signal() {
        Signal::Traces => taking.request(request.body()),
        Signal::Metrics | Signal::Logs => Some(Remaining::All),
    };
    // An accepted request is not malformed.
    let Some(remaining) = remaining else {
        return TakenSpans { rest: Some(request), spans: Vec::new(), too_large: 0 };
    };
    let Taking { spans, too_large, .. } = taking;
    let items = request.items().saturating_sub(spans.len() as u64);
    TakenSpans { rest: remaining.of(request, items), spans, too_large }
}

struct Taking<'a, R, T> {
    unproved: &'a str,
    of_resource: &'a mut dyn FnMut(ResourceView<'_>) -> R,
    choose: &'a mut dyn FnMut(&SpanView<'_>, &R) -> Option<T>,
    spans: Vec<(HeldSpan, T)>,
    too_large: u64,
}

impl<R, T> Taking<'_, R, T> {
    fn request(&mut self, body: &[u8]) -> Option<Remaining> {
        filter(body, RESOURCE_SPANS, &mut |element| self.resource(element))
    }

    fn resource(&mut self, element: &[u8]) -> Option<Remaining> {
        let head = without(element, &[SCOPE_SPANS])?;
        let decoded = ResourceSpans::decode(&head[..]).ok()?;
        let attributes = decoded.resource.map(|resource| resource.attributes).unwrap_or_default();
        let attributes = Attributes::new(&attributes);
        let resource = ResourceView(&attributes);
        let of_resource = (self.of_resource)(resource);
        let head: Arc<[u8]> = head.into();
        filter(element, SCOPE_SPANS, &mut |scope_spans| {
            let scope_head = without(scope_spans, &[SPANS])?;
            let decoded = ScopeSpans::decode(&scope_head[..]).ok()?;
            let scope = decoded.scope.map(|scope| scope.name).unwrap_or_default();
            let group = SpanGroup { resource: Arc::clone(&head), scope: scope_head.into() };
            let group = Arc::new(group);
            filter(scope_spans, SPANS, &mut |bytes| {
                let span = Span::decode(bytes).ok()?;
                let view = SpanView { scope: &scope, resource, span: &span };
                let Some(chosen) = (self.choose)(&view, &of_resource) else {
                    return Some(Remaining::All);
                };
                if group.head() > MAX_HEAD {
                    self.too_large += 1;
                    let is_proved = !view.has_prefix(self.unproved);
                    let remaining = if is_proved {
                        Remaining::All
                    } else {
                        Remaining::Part(without_attributes(bytes, self.unproved)?)
                    };
                    return Some(remaining);
                }
                let held = HeldSpan { group: Arc::clone(&group), span: bytes.into() };
                self.spans.push((held, chosen));
                Some(Remaining::Nothing)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use proptest::prelude::*;

    use super::super::held_span::{HeldRequest, held_requests};
    use super::*;
    use phasemeter_otlp::wire::push_field;

    fn resource(name: &str) -> Option<Resource> {
        let value = Some(AnyValue { value: Some(Value::StringValue(name.to_owned())) });
        let attribute = KeyValue { key: "host.name".to_owned(), value, ..KeyValue::default() };
        Some(Resource { attributes: vec![attribute], ..Resource::default() })
    }

    /// A request with these spans of each scope of each resource, by their numbers.
    fn request(numbers: &[Vec<Vec<u8>>]) -> ExportTraceServiceRequest {
        let span = |number: &u8| Span { name: number.to_string(), ..Span::default() };
        let scope = |(index, numbers): (usize, &Vec<u8>)| ScopeSpans {
            scope: Some(InstrumentationScope { name: format!("s{index}"), ..Default::default() }),
            spans: numbers.iter().map(span).collect(),
            schema_url: "of the scope".to_owned(),
        };
        let group = |(index, scopes): (usize, &Vec<Vec<u8>>)| ResourceSpans {
            resource: resource(&format!("h{index}")),
            scope_spans: scopes.iter().enumerate().map(scope).collect(),
            schema_url: "of the resource".to_owned(),
        };
        let resource_spans = numbers.iter().enumerate().map(group).collect();
        ExportTraceServiceRequest { resource_spans }
    }

    /// No attribute of tests begins like this.
    const NONE: &str = "none.";

    fn received(body: Vec<u8>, items: u64) -> EncodedRequest {
        EncodedRequest::new(Signal::Traces, items, body.into())
    }

    /// Takes the spans whose numbers are chosen; returns the rest, and what they leave in.
    fn take(
        request: &EncodedRequest,
        is_chosen: impl Fn(u8) -> bool,
    ) -> TakenSpans<(String, String)> {
        let mut host =
            |resource: ResourceView<'_>| resource.text("host.name").unwrap().into_owned();
        take_spans(request.clone(), NONE, &mut host, &mut |span: &SpanView<'_>, host: &String| {
            is_chosen(span.name().parse().unwrap()).then(|| (host.clone(), span.scope().to_owned()))
        })
    }

    /// The requests that spans leave in.
    fn requests(
        spans: impl IntoIterator<Item = (HeldSpan, Vec<u8>)>,
        max_bytes: usize,
    ) -> Vec<HeldRequest> {
        let mut requests = Vec::new();
        held_requests(spans, max_bytes, &mut |request| requests.push(request));
        requests
    }

    /// The names of all spans with their host and scope, in order.
    fn names(request: &ExportTraceServiceRequest) -> Vec<(String, String, String)> {
        let mut names = Vec::new();
        for group in &request.resource_spans {
            assert_eq!(group.schema_url, "of the resource");
            let host = group.resource.as_ref().unwrap().attributes[0].value.clone().unwrap();
            let Some(Value::StringValue(host)) = host.value else { panic!() };
            for scope in &group.scope_spans {
                assert_eq!(scope.schema_url, "of the scope");
                let name = &scope.scope.as_ref().unwrap().name;
                names.extend(
                    scope.spans.iter().map(|it| (host.clone(), name.clone(), it.name.clone())),
                );
            }
        }
        names
    }

    proptest! {
        /// The rest and what was taken are the request, each under its resource and scope, in order.
        #[test]
        fn taken_spans_and_rest_are_the_request(
            numbers in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 1..5), 1..3), 1..4),
            modulus in 1..5_u8,
            max_bytes in 1..400_usize,
        ) {
            let whole = request(&numbers);
            let all = names(&whole);
            let received = received(whole.encode_to_vec(), all.len() as u64);
            let is_chosen = |number: u8| number.is_multiple_of(modulus);
            let TakenSpans { rest, spans, too_large } = take(&received, is_chosen);
            prop_assert_eq!(too_large, 0);
            let of = |name: &str| is_chosen(name.parse().unwrap());
            let (chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| of(&it.2));
            if chosen.is_empty() {
                prop_assert_eq!(rest.as_ref(), Some(&received), "no byte changes");
            }
            let left = rest.map(|rest| {
                let decoded = ExportTraceServiceRequest::decode(&rest.body()[..]).unwrap();
                let names = names(&decoded);
                assert_eq!(rest.items(), names.len() as u64);
                names
            });
            prop_assert_eq!(left.unwrap_or_default(), others);
            let found: Vec<_> = spans.iter().map(|(_, (host, scope))| (host.clone(), scope.clone())).collect();
            let expected: Vec<_> = chosen.iter().map(|(host, scope, _)| (host.clone(), scope.clone())).collect();
            prop_assert_eq!(found, expected);
            let held = spans.into_iter().map(|(span, _)| (span, Vec::new()));
            let requests = requests(held, max_bytes);
            let leave = requests.iter().flat_map(|it| {
                assert!(it.body.len() <= max_bytes || it.spans == 1, "{}", it.body.len());
                let decoded = ExportTraceServiceRequest::decode(&it.body[..]).unwrap();
                assert_eq!(names(&decoded).len() as u64, it.spans);
                names(&decoded)
            });
            prop_assert_eq!(leave.collect::<Vec<_>>(), chosen);
        }
    }

    #[test]
    fn unknown_fields_and_their_order_remain() {
        // A field of a later version of the protocol, in the request and in a scope.
        let unknown = b"\x52\x01x";
        let span = |name: &str| {
            let mut span = Vec::new();
            push_field(
                SPANS,
                &Span { name: name.to_owned(), ..Span::default() }.encode_to_vec(),
                &mut span,
            );
            span
        };
        let scope = |spans: &[Vec<u8>]| [&spans.concat()[..], unknown].concat();
        let body = |spans: &[Vec<u8>]| {
            let (mut resource, mut body) = (Vec::new(), unknown.to_vec());
            push_field(SCOPE_SPANS, &scope(spans), &mut resource);
            push_field(RESOURCE_SPANS, &resource, &mut body);
            body
        };
        let request = received(body(&[span("1"), span("2"), span("3")]), 3);
        let mut choose = |span: &SpanView<'_>, _: &()| (span.name() == "2").then_some(());
        let taken = take_spans(request, NONE, &mut |_| (), &mut choose);
        assert_eq!(taken.rest.unwrap().body()[..], body(&[span("1"), span("3")]));
    }

    #[test]
    fn further_fields_follow_the_bytes_of_a_span() {
        let whole = request(&[vec![vec![7]]]);
        let received = received(whole.encode_to_vec(), 1);
        let TakenSpans { rest, spans, .. } = take(&received, |_| true);
        assert_eq!(rest, None);
        let mut further = Vec::new();
        let attribute = KeyValue { key: "added".to_owned(), ..KeyValue::default() };
        push_field(9, &attribute.encode_to_vec(), &mut further);
        let spans = spans.into_iter().map(|(span, _)| (span, further.clone()));
        let [request] = &requests(spans, usize::MAX)[..] else { panic!() };
        let decoded = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
        let mut expected = whole;
        expected.resource_spans[0].scope_spans[0].spans[0].attributes.push(attribute);
        assert_eq!(decoded, expected);
    }

    /// Guarantee: what leaves has a resource once per request, in whatever order its spans leave.
    #[test]
    fn bytes_that_leave_are_those_that_arrived() {
        for scopes in [1, 100, 2_000] {
            let numbers = [vec![vec![7]; scopes], vec![vec![7]; scopes]];
            let mut whole = request(&numbers);
            for group in &mut whole.resource_spans {
                group.resource = resource(&"h".repeat(100 << 10));
            }
            let body = whole.encode_to_vec();
            let arrived = body.len();
            let mut choose = |_: &SpanView<'_>, _: &()| Some(());
            let taken =
                take_spans(received(body, 2 * scopes as u64), NONE, &mut |_| (), &mut choose);
            let mut spans: Vec<_> =
                taken.spans.into_iter().map(|(span, ())| (span, Vec::new())).collect();
            // Those of two resources in turn.
            let mut other = spans.split_off(scopes);
            let mixed = spans.drain(..).zip(other.drain(..)).flat_map(|(a, b)| [a, b]);
            let left: usize = requests(mixed, 1 << 20).iter().map(|it| it.body.len()).sum();
            assert!(left <= arrived, "{scopes} scopes: {arrived} bytes became {left}");
        }
    }

    /// Guarantee: spans of a resource that is too large to be copied pass, unchanged, and are counted.
    #[test]
    fn spans_of_a_huge_resource_remain() {
        let mut whole = request(&[vec![vec![1, 2]]]);
        whole.resource_spans[0].resource = resource(&"h".repeat(MAX_HEAD));
        let received = received(whole.encode_to_vec(), 2);
        let mut choose = |_: &SpanView<'_>, _: &()| Some(());
        let taken = take_spans(received.clone(), NONE, &mut |_| (), &mut choose);
        assert_eq!(
            (taken.rest, taken.spans.len(), taken.too_large),
            (Some(received.clone()), 0, 2)
        );
        let clean = whole.encode_to_vec();
        let forged = KeyValue { key: "forged.cost".to_owned(), ..KeyValue::default() };
        whole.resource_spans[0].scope_spans[0].spans[1].attributes = vec![forged.clone(), forged];
        let received = self::received(whole.encode_to_vec(), 2);
        let taken = take_spans(received, "forged.", &mut |_| (), &mut choose);
        assert_eq!((&taken.rest.unwrap().body()[..], taken.too_large), (&clean[..], 2));
    }
}
