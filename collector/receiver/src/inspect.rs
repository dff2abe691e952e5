//! Inspects a protobuf request before it is accepted: it must fit in memory and be decodable.
//!
//! A request is a sequence of elements, one per resource. Those that are malformed are cut out and
//! reported; the bytes of the others do not change.

use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use prost::{DecodeError, Message};

use super::error::RequestError;
use super::footprint::footprint;
use super::limits::Limits;
use super::split::split;
use phasemeter_otlp::Signal;
use phasemeter_otlp::items::Items;
use phasemeter_otlp::wire::{Field, first_field};

/// The tag of the elements in the request of any signal.
const ELEMENT: u32 = 1;

/// A request that can be accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inspected {
    /// Its parts, without malformed elements.
    pub(super) parts: Vec<Part>,
    /// What was cut out, if anything.
    pub(super) rejected: Option<Rejected>,
}

/// A part of a request, which is a request by itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) body: Vec<u8>,
    /// Number of its spans, data points or log records.
    pub(super) items: u64,
}

/// Malformed elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// Their number. How many items are in them is unknown.
    pub(super) elements: u64,
    /// The first error.
    pub(super) reason: String,
}

/// Inspects a request by its parts, in one pass; an error if nothing of it can be accepted.
pub(super) fn inspect(
    signal: Signal,
    body: Vec<u8>,
    limits: &Limits,
) -> Result<Inspected, RequestError> {
    let (mut elements, mut rejected) = (0, None);
    let parts = split(signal, body, limits).into_iter();
    let parts = parts.map(|part| inspect_part(signal, part, limits, &mut elements, &mut rejected));
    let parts = parts.collect::<Result<_, _>>()?;
    match rejected {
        Some(Rejected { elements: malformed, reason }) if malformed == elements => {
            Err(RequestError::malformed(reason))
        }
        rejected => Ok(Inspected { parts, rejected }),
    }
}

fn inspect_part(
    signal: Signal,
    mut body: Vec<u8>,
    limits: &Limits,
    elements: &mut u64,
    rejected: &mut Option<Rejected>,
) -> Result<Part, RequestError> {
    let (mut items, mut memory) = (0, 0_usize);
    // What was read, and at the beginning what is kept of it.
    let (mut read, mut kept) = (0, 0);
    while let Some(rest) = body.get(read..).filter(|rest| !rest.is_empty()) {
        let invalid = || RequestError::malformed("invalid protobuf");
        let Field { tag, whole, value } = first_field(&mut &*rest).ok_or_else(invalid)?;
        let length = whole.len();
        // Other fields are those of a later version of the protocol.
        let element = (tag == ELEMENT).then(|| value.ok_or_else(invalid)).transpose()?;
        let counted = element.map(|element| {
            *elements += 1;
            let footprint =
                footprint(signal, whole).ok_or_else(|| "invalid protobuf".to_owned())?;
            memory = memory.saturating_add(footprint.max(element.len()));
            let fits = memory <= limits.decoded_bytes;
            let counted = || read_element(signal, element).map_err(|error| error.to_string());
            fits.then(|| Ok(counted()?.1)).transpose()
        });
        match counted.unwrap_or(Ok(Some(0))) {
            Ok(None) => return Err(RequestError::TooComplex),
            Ok(Some(count)) => {
                items += count;
                if kept < read {
                    body.copy_within(read..read + length, kept);
                }
                kept += length;
            }
            Err(reason) => {
                let first = Rejected { elements: 0, reason };
                rejected.get_or_insert(first).elements += 1;
            }
        }
        read += length;
    }
    body.truncate(kept);
    Ok(Part { body, items })
}

/// The resource of an element, and the number of its items. It is decoded: one at a time, so that memory is limited.
pub(super) fn read_element(
    signal: Signal,
    element: &[u8],
) -> Result<(Option<Resource>, u64), DecodeError> {
    match signal {
        Signal::Traces => read(element, |group: ResourceSpans| group.resource),
        Signal::Metrics => read(element, |group: ResourceMetrics| group.resource),
        Signal::Logs => read(element, |group: ResourceLogs| group.resource),
    }
}

fn read<T: Message + Default + Items>(
    element: &[u8],
    resource: impl Fn(T) -> Option<Resource>,
) -> Result<(Option<Resource>, u64), DecodeError> {
    let group = T::decode(element)?;
    let count = group.count() as u64;
    Ok((resource(group), count))
}

#[cfg(test)]
mod tests {
    use super::{Inspected, Limits, Part, Rejected, RequestError, inspect};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use phasemeter_otlp::Signal;
    use proptest::prelude::*;
    use prost::Message;

    fn element(spans: usize) -> Vec<u8> {
        let spans = (0..spans).map(|i| Span { name: format!("span {i}"), ..Span::default() });
        let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    /// The body and the number of items that are accepted of a small request, and what is rejected.
    fn inspected(body: &[u8]) -> Result<(Vec<u8>, u64, Option<Rejected>), RequestError> {
        let limits = Limits { part_bytes: usize::MAX, ..Limits::default() };
        let Inspected { mut parts, rejected } = inspect(Signal::Traces, body.to_vec(), &limits)?;
        let Part { body, items } = parts.remove(0);
        Ok((body, items, rejected))
    }

    /// Guarantee: whatever is malformed in one part of a large request costs that part only.
    #[test]
    fn malformed_element_of_a_large_request_is_cut_out_of_its_part() {
        let limits = Limits { part_bytes: 100, ..Limits::default() };
        let body = [&element(30)[..], INVALID, &element(30)].concat();
        let Inspected { parts, rejected } = inspect(Signal::Traces, body, &limits).unwrap();
        assert!(parts.len() > 5 && parts.iter().all(|part| part.body.len() <= 100));
        let items: u64 = parts.iter().map(|part| part.items).sum();
        assert_eq!((items, rejected.unwrap().elements), (60, 1));
        let body = INVALID.repeat(100);
        let error = inspect(Signal::Traces, body, &limits).unwrap_err();
        assert!(matches!(error, RequestError::Malformed { .. }), "{error}");
    }

    /// An element whose scope spans are not UTF-8.
    const INVALID: &[u8] = b"\x0a\x04\x1a\x02\xff\xfe";

    /// A field of an unknown version.
    const UNKNOWN: &[u8] = b"\x52\x01x";

    #[test]
    fn bytes_of_valid_request_do_not_change() {
        let body = [&element(3)[..], UNKNOWN, &element(2)].concat();
        assert_eq!(inspected(&body), Ok((body, 5, None)));
    }

    #[test]
    fn malformed_element_is_cut_out_and_reported() {
        let body = [&element(3)[..], INVALID, UNKNOWN, &element(2), INVALID].concat();
        let (body, items, rejected) = inspected(&body).unwrap();
        assert_eq!(body, [&element(3)[..], UNKNOWN, &element(2)].concat());
        let rejected = rejected.unwrap();
        assert_eq!((items, rejected.elements), (5, 2));
        assert!(rejected.reason.contains("UTF-8"), "{}", rejected.reason);
        assert!(matches!(inspected(INVALID), Err(RequestError::Malformed { .. })));
        assert!(matches!(inspected(b"\x0a\x7f"), Err(RequestError::Malformed { .. })));
    }

    #[test]
    fn request_that_is_large_in_memory_only_is_rejected() {
        let body = element(0);
        let spans = [0x12, 0].repeat(1 << 20);
        let mut scope = vec![0x12];
        prost::encoding::encode_varint(spans.len() as u64, &mut scope);
        scope.extend(spans);
        let mut bomb = vec![0x0a];
        prost::encoding::encode_varint(scope.len() as u64, &mut bomb);
        bomb.extend(scope);
        assert_eq!(inspected(&[body, bomb].concat()), Err(RequestError::TooComplex));
    }

    /// Guarantee: malformed elements cost no more than their bytes, however many precede a large one.
    #[test]
    fn malformed_elements_before_a_large_one_are_cut_out_at_once() {
        let large = element(10_000);
        let malformed = INVALID.repeat(100_000);
        let body = [&malformed[..], &large, UNKNOWN, &malformed].concat();
        let (body, items, rejected) = inspected(&body).unwrap();
        assert_eq!(body, [&large[..], UNKNOWN].concat());
        assert_eq!((items, rejected.unwrap().elements), (10_000, 200_000));
    }

    proptest! {
        /// Whatever is accepted can be decoded, with the same number of items.
        #[test]
        fn accepted_request_can_be_decoded(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..200,
            flip in any::<u8>(),
        ) {
            let mut damaged = [element(2), element(1)].concat();
            let length = damaged.len();
            damaged[at % length] ^= flip;
            for body in [&mut bytes, &mut damaged] {
                if let Ok((body, items, _)) = inspected(body) {
                    let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                    let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
                    let spans: usize = scopes.map(|it| it.spans.len()).sum();
                    prop_assert_eq!(spans as u64, items);
                }
            }
        }
    }
}
