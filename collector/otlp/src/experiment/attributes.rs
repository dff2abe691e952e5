//! Attributes of a resource, as `OTEL_RESOURCE_ATTRIBUTES` writes them.
//!
//! `key=value,key=value` with `%2C` for what would end a value. This room must not know what the
//! attributes mean.

use std::collections::BTreeMap;

/// Attributes by name.
pub type Attributes = BTreeMap<String, String>;

/// Why the whole list is refused: half of it could name the wrong thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributesError {
    /// A member is no pair.
    #[error("{0:?} is no attribute: give KEY=VALUE with commas between them")]
    NoPair(String),
    /// A percent sign is not followed by two hex digits, or what they say is no UTF-8.
    #[error("{0:?} cannot be decoded: write a percent sign as %25")]
    Encoding(String),
}

/// Reads a list of attributes. Of two values of one key the later counts.
///
/// # Errors
/// Where any member cannot be read.
pub fn parse(list: &str) -> Result<Attributes, AttributesError> {
    let members = list.split(',').map(str::trim).filter(|member| !member.is_empty());
    members
        .map(|member| {
            let (key, value) = member
                .split_once('=')
                .map(|(key, value)| (key.trim(), value.trim()))
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| AttributesError::NoPair(member.to_owned()))?;
            let decode =
                |text| decode(text).ok_or_else(|| AttributesError::Encoding(member.to_owned()));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

/// Undoes percent encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let byte = digit()? << 4 | digit()?;
            bytes.push(u8::try_from(byte).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_decoded() {
        let read = parse(" service.name = a%2Cb%3d , team=ü%C3%BC,empty=, ,team=ml;x").unwrap();
        let pairs: Vec<_> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("empty", ""), ("service.name", "a,b="), ("team", "ml;x")]);
        assert_eq!(parse(""), Ok(Attributes::new()));
    }

    #[test]
    fn one_bad_member_spoils_the_list() {
        for list in ["a", "a=1,b", "=1", "a=1,=2"] {
            assert!(matches!(parse(list), Err(AttributesError::NoPair(_))), "{list}");
        }
        for list in ["a=%", "a=%4", "a=%zz", "a=%FF", "%=1", "a=%+1"] {
            assert!(matches!(parse(list), Err(AttributesError::Encoding(_))), "{list}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_comes_back(key in "\\PC{1,20}", value: String) {
            let encode = |text: &str| -> String {
                text.bytes().map(|byte| format!("%{byte:02X}")).collect()
            };
            let read = parse(&format!("{}={}", encode(&key), encode(&value)));
            prop_assert_eq!(read, Ok(Attributes::from([(key, value)])));
        }

        #[test]
        fn nothing_panics(list in "[a%=, 0-9é]{0,40}") {
            let _ = parse(&list);
        }
    }
}
