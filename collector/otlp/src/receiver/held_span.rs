//! Spans that were taken out of requests, as they were encoded, and the requests that they leave in.
//!
//! Must not depend on why they are held.

use std::sync::Arc;

use crate::wire::push_field;

/// Tags of a request's resources, of a resource's scopes, of a scope's spans, and of a span's attributes.
pub(super) const RESOURCE_SPANS: u32 = 1;
pub(super) const SCOPE_SPANS: u32 = 2;
pub(super) const SPANS: u32 = 2;

/// A span with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSpan {
    pub(super) group: Arc<SpanGroup>,
    pub(super) span: Box<[u8]>,
}

/// What the spans of one scope of one request have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpanGroup {
    /// The fields of the resource's element, without its scopes.
    pub(super) resource: Arc<[u8]>,
    /// The fields of the scope's element, without its spans.
    pub(super) scope: Box<[u8]>,
}

impl HeldSpan {
    /// The most memory that it takes: with what it shares with other spans, which may leave before it.
    #[must_use]
    pub fn size(&self) -> usize {
        let SpanGroup { resource, scope } = &*self.group;
        size_of::<Self>() + self.span.len() + resource.len() + scope.len()
    }
}

/// A request of held spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldRequest {
    /// Number of its spans.
    pub spans: u64,
    /// The request as protobuf.
    pub body: Vec<u8>,
}

/// The requests for these spans, in order. Each has at most `max_bytes`, or a single span. Further
/// fields of a span, such as attributes, follow its own bytes.
#[must_use]
pub fn held_requests(
    spans: impl IntoIterator<Item = (HeldSpan, Vec<u8>)>,
    max_bytes: usize,
) -> Vec<HeldRequest> {
    let mut requests = Vec::new();
    let mut request = HeldRequest::default();
    let mut open: Option<(Arc<SpanGroup>, Vec<u8>)> = None;
    for (HeldSpan { group, span }, further) in spans {
        let open_bytes = open.as_ref().map_or(0, |(group, spans)| spans.len() + overhead(group));
        let next = overhead(&group) + span.len() + further.len() + FIELD_BYTES;
        let is_full = request.spans > 0 && request.body.len() + open_bytes + next > max_bytes;
        if is_full || open.as_ref().is_some_and(|(open, _)| !Arc::ptr_eq(open, &group)) {
            open.take().into_iter().for_each(|(group, spans)| close(&group, &spans, &mut request));
        }
        if is_full {
            requests.push(std::mem::take(&mut request));
        }
        let (_, spans) = open.get_or_insert_with(|| (group, Vec::new()));
        push_field(SPANS, &[&span[..], &further].concat(), spans);
        request.spans += 1;
    }
    open.into_iter().for_each(|(group, spans)| close(&group, &spans, &mut request));
    if request.spans > 0 {
        requests.push(request);
    }
    requests
}

/// The most that the key and the length of a field take.
const FIELD_BYTES: usize = 11;

fn overhead(group: &SpanGroup) -> usize {
    group.resource.len() + group.scope.len() + 2 * FIELD_BYTES
}

/// Adds the spans of a group to a request.
fn close(group: &SpanGroup, spans: &[u8], request: &mut HeldRequest) {
    let scope = [&group.scope[..], spans].concat();
    let mut resource = group.resource.to_vec();
    push_field(SCOPE_SPANS, &scope, &mut resource);
    push_field(RESOURCE_SPANS, &resource, &mut request.body);
}
