//! The fields of an encoded message, with their bytes.

use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// The most that the key and the length of a field take.
pub const FIELD_BYTES: usize = 11;

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its number in the definition of the message.
    pub tag: u32,
    /// Its bytes, with its key.
    pub whole: &'a [u8],
    /// Its value, if that has a length.
    pub value: Option<&'a [u8]>,
}

/// The fields of a message, in order. `None` in place of one that is malformed, and then no further ones.
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// See [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = first_field(&mut self.rest);
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The first of these fields, which is taken from them; `None` if it is malformed.
pub fn first_field<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let start = *rest;
    let (tag, wire_type) = decode_key(rest).ok()?;
    let value = if wire_type == WireType::LengthDelimited {
        let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
        let (value, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(value)
    } else {
        skip_field(wire_type, tag, rest, DecodeContext::default()).ok()?;
        None
    };
    let (whole, _) = start.split_at_checked(start.len() - rest.len())?;
    Some(Field { tag, whole, value })
}

/// The fields of a message without those of these tags; `None` if it is malformed.
pub fn without(message: &[u8], tags: &[u32]) -> Option<Vec<u8>> {
    retain(message, |field| Some(!tags.contains(&field.tag)))
}

/// The fields of a message that are kept; `None` if it is malformed, or if `is_kept` returns that.
pub fn retain(message: &[u8], is_kept: impl Fn(Field<'_>) -> Option<bool>) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    for field in fields(message) {
        let field = field?;
        if is_kept(field)? {
            kept.extend_from_slice(field.whole);
        }
    }
    Some(kept)
}

/// Appends a field whose value has a length.
pub fn push_field(tag: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}
