//! Spans that were taken out of requests, as they were encoded, and the requests that they leave in.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use prost::Message;

use phasemeter_otlp::wire::{FIELD_BYTES, Field, push_field, retain};

/// Tags of a request's resources, of a resource's scopes, of a scope's spans, and of a span's attributes.
pub(super) const RESOURCE_SPANS: u32 = 1;
pub(super) const SCOPE_SPANS: u32 = 2;
pub(super) const SPANS: u32 = 2;
const ATTRIBUTES: u32 = 9;

/// Maximum size of a resource with a scope whose spans can be held: each request in which some of them
/// leave has a copy.
pub(super) const MAX_HEAD: usize = 256 << 10;

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
    /// The span without attributes whose keys begin like this. No other byte changes.
    #[must_use]
    pub fn without_attributes(self, prefix: &str) -> Self {
        let span = without_attributes(&self.span, prefix).map_or(self.span, Into::into);
        Self { group: self.group, span }
    }

    /// The most bytes that it takes, in memory and in a request that it leaves in: with what it shares with
    /// other spans, which may leave before it.
    #[must_use]
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.span.len() + self.group.head()
    }
}

/// The bytes of a span without attributes whose keys begin like this; `None` if they are malformed.
pub(super) fn without_attributes(span: &[u8], prefix: &str) -> Option<Vec<u8>> {
    retain(span, |Field { tag, value, .. }| {
        let attribute = value.filter(|_| tag == ATTRIBUTES);
        let attribute = attribute.map(KeyValue::decode).transpose().ok()?;
        Some(!attribute.is_some_and(|attribute| attribute.key.starts_with(prefix)))
    })
}

impl SpanGroup {
    /// Bytes of what its spans have in common.
    pub(super) fn head(&self) -> usize {
        self.resource.len() + self.scope.len()
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

/// Builds the requests for these spans, one after another: those of one resource and of one scope together,
/// otherwise in order. Each request has at most `max_bytes`, or a single span, and a resource once. Further
/// fields of a span, such as attributes, follow its own bytes.
pub fn held_requests(
    spans: impl IntoIterator<Item = (HeldSpan, Vec<u8>)>,
    max_bytes: usize,
    emit: &mut dyn FnMut(HeldRequest),
) {
    let mut building = Building { request: HeldRequest::default(), open: None, max_bytes, emit };
    for (HeldSpan { group, span }, further) in grouped(spans) {
        building.add(&group, &span, &further);
    }
    building.finish();
}

/// The spans of one resource, and of one scope of it, one after another.
fn grouped(
    spans: impl IntoIterator<Item = (HeldSpan, Vec<u8>)>,
) -> impl Iterator<Item = (HeldSpan, Vec<u8>)> {
    let (mut resources, mut scopes) = (HashMap::new(), HashMap::new());
    let ranked = spans.into_iter().map(|(span, further)| {
        let (next_resource, next_scope) = (resources.len(), scopes.len());
        let resource = Arc::as_ptr(&span.group.resource).cast::<u8>();
        let resource = *resources.entry(resource).or_insert(next_resource);
        let scope = *scopes.entry(Arc::as_ptr(&span.group)).or_insert(next_scope);
        ((resource, scope), (span, further))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, span)| span)
}

/// A request that is being built.
struct Building<'a> {
    request: HeldRequest,
    open: Option<Open>,
    max_bytes: usize,
    emit: &'a mut dyn FnMut(HeldRequest),
}

/// A resource and a scope to which spans are being added.
struct Open {
    group: Arc<SpanGroup>,
    /// The element of the resource so far, without the scope.
    resource: Vec<u8>,
    /// The element of the scope so far.
    scope: Vec<u8>,
}

impl Building<'_> {
    fn add(&mut self, group: &Arc<SpanGroup>, span: &[u8], further: &[u8]) {
        let open = self.open.as_ref();
        let in_scope = open.is_some_and(|open| Arc::ptr_eq(&open.group, group));
        let in_resource =
            open.is_some_and(|open| Arc::ptr_eq(&open.group.resource, &group.resource));
        let head = match (in_resource, in_scope) {
            (_, true) => 0,
            (true, false) => group.scope.len() + FIELD_BYTES,
            (false, false) => group.head() + 2 * FIELD_BYTES,
        };
        let next = head + span.len() + further.len() + FIELD_BYTES;
        let built = self.request.body.len() + open.map_or(0, Open::bytes);
        if self.request.spans > 0 && built + next > self.max_bytes {
            self.finish();
        } else if !in_resource {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Open {
            group: Arc::clone(group),
            resource: group.resource.to_vec(),
            scope: group.scope.to_vec(),
        });
        if !Arc::ptr_eq(&open.group, group) {
            push_field(SCOPE_SPANS, &open.scope, &mut open.resource);
            open.group = Arc::clone(group);
            open.scope = group.scope.to_vec();
        }
        push_field(SPANS, &[span, further].concat(), &mut open.scope);
        self.request.spans += 1;
    }

    /// Ends the open resource.
    fn close(&mut self) {
        if let Some(Open { mut resource, scope, .. }) = self.open.take() {
            push_field(SCOPE_SPANS, &scope, &mut resource);
            push_field(RESOURCE_SPANS, &resource, &mut self.request.body);
        }
    }

    /// Ends the request.
    fn finish(&mut self) {
        self.close();
        if self.request.spans > 0 {
            (self.emit)(std::mem::take(&mut self.request));
        }
    }
}

impl Open {
    fn bytes(&self) -> usize {
        self.resource.len() + self.scope.len() + 2 * FIELD_BYTES
    }
}
