//! The scalars of proto3's mapping to JSON: numbers also as text, bytes in hexadecimal or base64.

use std::fmt::{self, Formatter};

use bytes::BufMut;
use prost::encoding::{WireType, encode_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use super::schema::Form;

/// A number in its form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
}

impl Wire {
    pub(super) const fn is_default(self) -> bool {
        matches!(self, Self::Varint(0) | Self::Fixed32(0) | Self::Fixed64(0))
    }

    pub(super) const fn wire_type(self) -> WireType {
        match self {
            Self::Varint(_) => WireType::Varint,
            Self::Fixed32(_) => WireType::ThirtyTwoBit,
            Self::Fixed64(_) => WireType::SixtyFourBit,
        }
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Varint(number) => encode_varint(number, out),
            Self::Fixed32(number) => out.put_u32_le(number),
            Self::Fixed64(number) => out.put_u64_le(number),
        }
    }
}

/// A number of a form.
pub(super) struct Number(pub(super) Form);

impl<'de> DeserializeSeed<'de> for Number {
    type Value = Wire;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Wire, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Number {
    /// A whole number of the form, if it is within its range.
    fn whole(&self, number: i128) -> Option<Wire> {
        Some(match self.0 {
            Form::Fixed64 | Form::Fixed64s => Wire::Fixed64(number.try_into().ok()?),
            Form::Varints => Wire::Varint(number.try_into().ok()?),
            Form::SFixed64 => Wire::Fixed64(i64::try_from(number).ok()?.cast_unsigned()),
            Form::Int64 => Wire::Varint(i64::try_from(number).ok()?.cast_unsigned()),
            Form::Fixed32 => Wire::Fixed32(number.try_into().ok()?),
            Form::SInt32 => {
                let number = i32::try_from(number).ok()?;
                Wire::Varint(((number << 1) ^ (number >> 31)).cast_unsigned().into())
            }
            // Numbers of enums are signed, and none that is in use is negative.
            _ => Wire::Varint(u32::try_from(number).ok()?.into()),
        })
    }

    const fn is_double(&self) -> bool {
        matches!(self.0, Form::Double | Form::Doubles)
    }

    fn invalid<E: Error>(&self) -> E {
        E::custom(match self.is_double() {
            true => "expected a number, \"NaN\" or \"Infinity\"",
            false => "expected a whole number in the range of the field",
        })
    }
}

impl Visitor<'_> for Number {
    type Value = Wire;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Wire, E> {
        self.visit_whole(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Wire, E> {
        self.visit_whole(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Wire, E> {
        if self.is_double() {
            return Ok(Wire::Fixed64(number.to_bits()));
        }
        // Whole numbers may have an exponent. Beyond 2^53 they are text.
        let whole = format!("{number:.0}").parse::<i128>().ok();
        #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "exact up to 2^53")]
        let whole = whole.filter(|whole| *whole as f64 == number);
        whole.and_then(|whole| self.whole(whole)).ok_or_else(|| self.invalid())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Wire, E> {
        let read = match (self.is_double(), text) {
            (true, "NaN") => Some(Wire::Fixed64(f64::NAN.to_bits())),
            (true, "Infinity") => Some(Wire::Fixed64(f64::INFINITY.to_bits())),
            (true, "-Infinity") => Some(Wire::Fixed64(f64::NEG_INFINITY.to_bits())),
            (true, _) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(|number| Wire::Fixed64(number.to_bits()))
            }
            (false, _) => text.parse().ok().and_then(|number| self.whole(number)),
        };
        read.ok_or_else(|| self.invalid())
    }
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "a double field has a double")]
    fn visit_whole<E: Error>(&self, number: i128) -> Result<Wire, E> {
        if self.is_double() {
            return Ok(Wire::Fixed64((number as f64).to_bits()));
        }
        self.whole(number).ok_or_else(|| self.invalid())
    }
}

/// Text, which is passed on.
pub(super) struct Text<'a>(pub(super) &'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        (self.0)(text);
        Ok(())
    }
}

/// True or false.
pub(super) struct Truth;

impl Visitor<'_> for Truth {
    type Value = bool;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, is_so: bool) -> Result<bool, E> {
        Ok(is_so)
    }
}

/// Bytes, in hexadecimal or in base64.
pub(super) struct Bytes {
    pub(super) is_hex: bool,
}

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_hex { "hexadecimal text" } else { "text in base64" })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let read = if self.is_hex { hex(text.as_bytes()) } else { base64(text.as_bytes()) };
        read.ok_or_else(|| {
            E::custom(format_args!("expected {}", &self as &dyn serde::de::Expected))
        })
    }
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// With the standard alphabet or that for URLs, padded or not.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let unpadded = text.len() - text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digit = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(unpadded / 4 * 3 + 2);
    for group in text.get(..unpadded)?.chunks(4) {
        let digits = group.iter().map(digit).collect::<Option<Vec<u8>>>()?;
        if digits.len() < 2 {
            return None;
        }
        let at = |index: usize| u32::from(digits.get(index).copied().unwrap_or_default());
        let whole = at(0) << 18 | at(1) << 12 | at(2) << 6 | at(3);
        let [_, decoded @ ..] = whole.to_be_bytes();
        bytes.extend(decoded.get(..digits.len() - 1)?);
    }
    Some(bytes)
}
