//! Inspects a protobuf request before it is accepted: it must fit in memory and be decodable.
//!
//! A request is a sequence of elements, one per resource. Those that are malformed are cut out and
//! reported; the bytes of the others do not change. Must not depend on the transport.

use std::ops::Range;

use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::error::RequestError;
use super::footprint::footprint;
use super::limits::Limits;
use crate::items::Items;
use crate::signal::Signal;

/// The tag of the elements in the request of any signal.
const ELEMENT: u32 = 1;

/// A request that can be accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inspected {
    /// The body without malformed elements.
    pub(super) body: Vec<u8>,
    /// Number of its spans, data points or log records.
    pub(super) items: u64,
    /// What was cut out, if anything.
    pub(super) rejected: Option<Rejected>,
}

/// Malformed elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    /// Their number. How many items are in them is unknown.
    pub(super) elements: u64,
    /// The first error.
    pub(super) reason: String,
}

/// Inspects a request; an error if nothing of it can be accepted.
pub(super) fn inspect(
    signal: Signal,
    mut body: Vec<u8>,
    limits: &Limits,
) -> Result<Inspected, RequestError> {
    let mut items = 0;
    let mut malformed: Vec<Range<usize>> = Vec::new();
    let mut rejected: Option<Rejected> = None;
    let elements = elements(&body).ok_or_else(|| RequestError::malformed("invalid protobuf"))?;
    let mut memory = 0_usize;
    for element in &elements {
        let bytes = body.get(element.value.clone()).unwrap_or_default();
        let counted = match footprint_of(signal, bytes, &body, element) {
            None => Err("invalid protobuf".to_owned()),
            Some(bytes_in_memory) => {
                memory = memory.saturating_add(bytes_in_memory);
                if memory > limits.decoded_bytes {
                    return Err(RequestError::TooComplex);
                }
                count(signal, bytes).map_err(|error| error.to_string())
            }
        };
        match counted {
            Ok(count) => items += count,
            Err(reason) => {
                malformed.push(element.whole.clone());
                let first = Rejected { elements: 0, reason };
                rejected.get_or_insert(first).elements += 1;
            }
        }
    }
    if let Some(Rejected { reason, .. }) = &rejected
        && malformed.len() == elements.len()
    {
        return Err(RequestError::malformed(reason));
    }
    for range in malformed.into_iter().rev() {
        body.drain(range);
    }
    Ok(Inspected { body, items, rejected })
}

/// Where an element is in the body: with its key and length, and without.
struct Element {
    whole: Range<usize>,
    value: Range<usize>,
}

/// The elements of a request; `None` if their boundaries are unknown.
fn elements(body: &[u8]) -> Option<Vec<Element>> {
    let mut elements = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let start = body.len() - rest.len();
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        if tag == ELEMENT && wire_type != WireType::LengthDelimited {
            return None;
        }
        if tag != ELEMENT {
            // A field of a later version of the protocol.
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        let from = body.len() - rest.len();
        let (_, after) = rest.split_at_checked(length)?;
        elements.push(Element { whole: start..from + length, value: from..from + length });
        rest = after;
    }
    Some(elements)
}

fn footprint_of(signal: Signal, value: &[u8], body: &[u8], element: &Element) -> Option<usize> {
    let whole = body.get(element.whole.clone())?;
    Some(footprint(signal, whole)?.max(value.len()))
}

/// The number of items of an element, which is decoded: one at a time, so that memory is limited.
fn count(signal: Signal, element: &[u8]) -> Result<u64, prost::DecodeError> {
    let count = match signal {
        Signal::Traces => ResourceSpans::decode(element)?.count(),
        Signal::Metrics => ResourceMetrics::decode(element)?.count(),
        Signal::Logs => ResourceLogs::decode(element)?.count(),
    };
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use super::{Inspected, Limits, RequestError, inspect};
    use crate::signal::Signal;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use proptest::prelude::*;
    use prost::Message;

    fn element(spans: usize) -> Vec<u8> {
        let spans = (0..spans).map(|i| Span { name: format!("span {i}"), ..Span::default() });
        let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn inspected(body: &[u8]) -> Result<Inspected, RequestError> {
        inspect(Signal::Traces, body.to_vec(), &Limits::default())
    }

    /// An element whose scope spans are not UTF-8.
    const INVALID: &[u8] = b"\x0a\x04\x1a\x02\xff\xfe";

    /// A field of an unknown version.
    const UNKNOWN: &[u8] = b"\x52\x01x";

    #[test]
    fn bytes_of_valid_request_do_not_change() {
        let body = [&element(3)[..], UNKNOWN, &element(2)].concat();
        assert_eq!(inspected(&body), Ok(Inspected { body, items: 5, rejected: None }));
    }

    #[test]
    fn malformed_element_is_cut_out_and_reported() {
        let body = [&element(3)[..], INVALID, UNKNOWN, &element(2), INVALID].concat();
        let Inspected { body, items, rejected } = inspected(&body).unwrap();
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
                if let Ok(Inspected { body, items, .. }) = inspected(body) {
                    let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                    let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
                    let spans: usize = scopes.map(|it| it.spans.len()).sum();
                    prop_assert_eq!(spans as u64, items);
                }
            }
        }
    }
}
