//! What is known of a received span.

use std::borrow::Cow;

use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_meter::units::Timestamp;

use super::attributes::{Attributes, find, to_number, to_text};
use super::counters::resource_id;

/// What the spans of one resource have in common.
#[derive(Clone, Copy, Debug)]
pub struct ResourceView<'a>(pub(super) &'a Attributes<'a>);

impl<'a> ResourceView<'a> {
    /// A scalar attribute, as text. One that is longer than
    /// [`MAX_LABEL`](phasemeter_meter::label_filter::MAX_LABEL) counts as absent.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.0.text(key)
    }

    /// What identifies it.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        resource_id(self.0.list())
    }
}

/// A span of a request, with its scope and its resource.
#[derive(Clone, Copy, Debug)]
pub struct SpanView<'a> {
    pub(super) scope: &'a str,
    pub(super) resource: ResourceView<'a>,
    pub(super) span: &'a Span,
}

impl<'a> SpanView<'a> {
    /// Its resource.
    #[must_use]
    pub const fn resource(&self) -> ResourceView<'a> {
        self.resource
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.span.name
    }

    /// The name of its instrumentation scope.
    #[must_use]
    pub const fn scope(&self) -> &str {
        self.scope
    }

    /// Its trace; `None` if the ID is invalid.
    #[must_use]
    pub fn trace_id(&self) -> Option<[u8; 16]> {
        self.span.trace_id.as_slice().try_into().ok().filter(|id| *id != [0; 16])
    }

    /// Its ID, if it is valid.
    #[must_use]
    pub fn span_id(&self) -> Option<[u8; 8]> {
        id(&self.span.span_id)
    }

    /// The ID of its parent, if it has one.
    #[must_use]
    pub fn parent_id(&self) -> Option<[u8; 8]> {
        id(&self.span.parent_span_id)
    }

    /// Its W3C trace state.
    #[must_use]
    pub fn trace_state(&self) -> &str {
        &self.span.trace_state
    }

    /// Its start, if it is one.
    #[must_use]
    pub fn start(&self) -> Option<Timestamp> {
        time(self.span.start_time_unix_nano)
    }

    /// Its end; `None` if it has not ended.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        time(self.span.end_time_unix_nano)
    }

    /// A scalar attribute, as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        find(&self.span.attributes, key).and_then(to_text)
    }

    /// A number among its attributes.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        find(&self.span.attributes, key).and_then(to_number)
    }

    /// All attributes with this key: a number, or `None` for another value.
    pub fn numbers(&self, key: &str) -> impl Iterator<Item = Option<f64>> {
        let of_key = self.span.attributes.iter().filter(move |attribute| attribute.key == key);
        of_key.map(|attribute| attribute.value.as_ref()?.value.as_ref().and_then(to_number))
    }

    /// Whether it has an attribute whose key begins like this.
    #[must_use]
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.span.attributes.iter().any(|attribute| attribute.key.starts_with(prefix))
    }
}

fn id(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.try_into().ok().filter(|id| *id != [0; 8])
}

fn time(nanos: u64) -> Option<Timestamp> {
    Timestamp::from_nanos(nanos).filter(|_| nanos > 0)
}
