//! The fields of an encoded message, with their bytes. Must not depend on what a message is.

use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) tag: u32,
    /// Its bytes, with its key.
    pub(crate) whole: &'a [u8],
    /// Its value, if that has a length.
    pub(crate) value: Option<&'a [u8]>,
}

/// The fields of a message, in order; `None` if it is malformed.
pub(crate) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        let value = if wire_type == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
            let (value, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(value)
        } else {
            skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
            None
        };
        let (whole, _) = start.split_at_checked(start.len() - rest.len())?;
        fields.push(Field { tag, whole, value });
    }
    Some(fields)
}

/// Appends a field whose value has a length.
pub(crate) fn push_field(tag: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}
