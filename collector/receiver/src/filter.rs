//! Leaves fields out of an encoded message. No other byte of it changes.

use bytes::Bytes;

use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::wire::{Field, fields, push_field};

/// The rest of a request, which counts as in flight like all of it.
struct Rest {
    bytes: Vec<u8>,
    _original: Bytes,
}

impl AsRef<[u8]> for Rest {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is left of a message.
pub(super) enum Remaining {
    All,
    Nothing,
    Part(Vec<u8>),
}

impl Remaining {
    /// What is left of a request, with this number of items; `None` if nothing is.
    pub(super) fn of(self, request: EncodedRequest, items: u64) -> Option<EncodedRequest> {
        match self {
            Self::All => Some(request),
            Self::Nothing => None,
            Self::Part(bytes) => {
                let rest = Rest { bytes, _original: request.body().clone() };
                let body = Bytes::from_owner(rest);
                (items > 0).then(|| EncodedRequest::new(request.signal(), items, body))
            }
        }
    }
}

/// The message with what is left of each field of this tag. Nothing is left of it if none of them is.
pub(super) fn filter(
    message: &[u8],
    tag: u32,
    remaining: &mut dyn FnMut(&[u8]) -> Option<Remaining>,
) -> Option<Remaining> {
    let mut out = Vec::new();
    let (mut is_whole, mut left) = (true, 0);
    for field in fields(message) {
        let Field { tag: found, whole, value } = field?;
        let of_tag = value.filter(|_| found == tag);
        match of_tag.map_or(Some(Remaining::All), &mut *remaining)? {
            Remaining::All => {
                out.extend_from_slice(whole);
                left += u32::from(of_tag.is_some());
            }
            Remaining::Part(part) => {
                push_field(tag, &part, &mut out);
                is_whole = false;
                left += 1;
            }
            Remaining::Nothing => is_whole = false,
        }
    }
    Some(match (is_whole, left) {
        (true, _) => Remaining::All,
        (false, 0) => Remaining::Nothing,
        (false, _) => Remaining::Part(out),
    })
}
