//! A request that has every field of the table, for tests.

use super::json_scalar::Wire;
use super::schema::{Form, Shape};
use crate::wire::push_field;

/// A message with a value in each field, nested this deep. Of fields that exclude each other the last one counts:
/// with another `first` field, another one.
pub(super) fn sample(shape: &Shape, first: usize, depth: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let count = shape.fields.len();
    for field in shape.fields.iter().cycle().skip(first % count).take(count) {
        let tag = field.tag;
        let mut push = |number: Wire| {
            prost::encoding::encode_key(tag, number.wire_type(), &mut out);
            number.encode(&mut out);
        };
        let distinct = u64::from(tag) + 1;
        match field.form {
            Form::Message(shape) | Form::Messages(shape) => {
                // Values contain themselves.
                if depth > 0 {
                    let depth = if shape.size == 0 { depth - 1 } else { depth };
                    push_field(tag, &sample(shape, first, depth), &mut out);
                }
            }
            Form::Text | Form::Texts => push_field(tag, field.name.as_bytes(), &mut out),
            Form::Id | Form::Bytes => push_field(tag, &[7, 0xfe], &mut out),
            Form::Bool => push(Wire::Varint(1)),
            Form::Double => push(Wire::Fixed64(0.5_f64.to_bits())),
            Form::Fixed64 | Form::SFixed64 => push(Wire::Fixed64(distinct)),
            Form::Fixed32 => push(Wire::Fixed32(9)),
            Form::Varint => push(Wire::Varint(1)),
            Form::Int64 | Form::SInt32 => push(Wire::Varint(distinct)),
            Form::Doubles => push_field(tag, &0.5_f64.to_le_bytes().repeat(2), &mut out),
            Form::Fixed64s => push_field(tag, &distinct.to_le_bytes().repeat(2), &mut out),
            Form::Varints => push_field(tag, &[1, 2], &mut out),
        }
    }
    out
}
