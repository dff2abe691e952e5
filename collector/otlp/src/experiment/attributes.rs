//! Resource attributes in the format of `OTEL_RESOURCE_ATTRIBUTES`.
//!
//! `key=value,key=value`, with delimiters percent-encoded.

use std::collections::BTreeMap;

/// Attributes by name.
pub type Attributes = BTreeMap<String, String>;

/// Why a list is rejected as a whole: half of it could be misleading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributesError {
    /// A member is not a pair.
    #[error("invalid attribute {0:?}: expected KEY=VALUE, separated by commas")]
    NoPair(String),
    /// A percent sign is not followed by two hex digits, or the result is not UTF-8.
    #[error("invalid percent encoding {0:?}: expected %25 for a percent sign")]
    Encoding(String),
}

/// Parses a list of attributes. Of two values for one key, the later one counts.
///
/// # Errors
/// Returns an error if any member is invalid.
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

/// Decodes percent encoding.
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
    fn invalid_member_rejects_list() {
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
