//! Reads a message of JSON and encodes it as protobuf, by the table of fields.

use std::cell::Cell;
use std::fmt::{self, Formatter};
use std::ops::Range;

use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json_scalar::{Bytes, Number, Text, Truth};
use super::schema::{Field, Form, Shape};
use phasemeter_otlp::wire::push_field;

/// What all messages of a request share.
pub(super) struct Context {
    /// Maximum size of a message.
    pub(super) limit: usize,
    /// Whether it was exceeded.
    pub(super) is_too_large: Cell<bool>,
}

impl Context {
    fn check<E: Error>(&self, out: &[u8]) -> Result<(), E> {
        if out.len() <= self.limit {
            return Ok(());
        }
        self.is_too_large.set(true);
        Err(E::custom("too large"))
    }
}

/// An object, whose fields are written to `out`, which is empty: in the order of their tags, as by any encoder.
pub(super) struct Message<'a> {
    pub(super) shape: &'static Shape,
    pub(super) context: &'a Context,
    pub(super) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Message<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { shape, context, out } = self;
        let mut fields: Vec<(u32, Range<usize>)> = Vec::new();
        while let Some(field) = map.next_key_seed(Key(shape))? {
            let start = out.len();
            match field {
                Some(field) => {
                    map.next_value_seed(Value { field, context, out: &mut *out })?;
                    fields.push((field.tag, start..out.len()));
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            context.check(out)?;
        }
        if !fields.is_sorted_by_key(|(tag, _)| *tag) {
            fields.sort_by_key(|(tag, _)| *tag);
            let parts = fields.into_iter().filter_map(|(_, range)| out.get(range));
            let sorted = parts.collect::<Vec<_>>().concat();
            *out = sorted;
        }
        Ok(())
    }
}

/// The name of a field, in JSON's form or in that of protobuf.
struct Key(&'static Shape);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.fields.iter().find(|field| is_name(name, field.name)))
    }
}

/// Whether a name is this one in camel case, or the same with underscores.
fn is_name(name: &str, camel: &str) -> bool {
    if name == camel {
        return true;
    }
    let snake = camel.chars().flat_map(|c| {
        let underscore = c.is_ascii_uppercase().then_some('_');
        underscore.into_iter().chain([c.to_ascii_lowercase()])
    });
    name.contains('_') && name.chars().eq(snake)
}

/// The value of a field. Null is none.
struct Value<'a> {
    field: &'static Field,
    context: &'a Context,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, context, out } = self;
        match field.form {
            Form::Message(shape) => {
                let mut message = Vec::new();
                Message { shape, context, out: &mut message }.deserialize(deserializer)?;
                push_field(field.tag, &message, out);
            }
            Form::Messages(_) | Form::Texts => {
                deserializer.deserialize_seq(List { field, context, out })?;
            }
            Form::Doubles | Form::Fixed64s | Form::Varints => {
                let mut packed = Vec::new();
                let list = List { field, context, out: &mut packed };
                deserializer.deserialize_seq(list)?;
                if !packed.is_empty() {
                    push_field(field.tag, &packed, out);
                }
            }
            _ => scalar(field, deserializer, out)?,
        }
        Ok(())
    }
}

/// Appends a field that is neither a list nor a message.
fn scalar<'de, D: Deserializer<'de>>(
    field: &Field,
    deserializer: D,
    out: &mut Vec<u8>,
) -> Result<(), D::Error> {
    let tag = field.tag;
    let is_kept = |is_default: bool| field.is_optional || !is_default;
    match field.form {
        Form::Text => {
            Text(&mut |text| {
                if is_kept(text.is_empty()) {
                    push_field(tag, text.as_bytes(), out);
                }
            })
            .deserialize(deserializer)?;
        }
        Form::Id | Form::Bytes => {
            let bytes = Bytes { is_hex: matches!(field.form, Form::Id) };
            let bytes = deserializer.deserialize_str(bytes)?;
            if is_kept(bytes.is_empty()) {
                push_field(tag, &bytes, out);
            }
        }
        Form::Bool => {
            let is_so = deserializer.deserialize_bool(Truth)?;
            if is_kept(!is_so) {
                encode_key(tag, WireType::Varint, out);
                encode_varint(is_so.into(), out);
            }
        }
        form => {
            let number = Number(form).deserialize(deserializer)?;
            if is_kept(number.is_default()) {
                encode_key(tag, number.wire_type(), out);
                number.encode(out);
            }
        }
    }
    Ok(())
}

/// A list, whose elements are appended to `out`: numbers without keys.
struct List<'a> {
    field: &'static Field,
    context: &'a Context,
    out: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { field, context, out } = self;
        loop {
            let found = match field.form {
                Form::Messages(shape) => {
                    let mut message = Vec::new();
                    let seed = Message { shape, context, out: &mut message };
                    let found = list.next_element_seed(seed)?;
                    found.map(|()| push_field(field.tag, &message, out))
                }
                Form::Texts => list.next_element_seed(Text(&mut |text| {
                    push_field(field.tag, text.as_bytes(), out);
                }))?,
                form => list.next_element_seed(Number(form))?.map(|number| number.encode(out)),
            };
            if found.is_none() {
                return Ok(());
            }
            context.check(out)?;
        }
    }
}
