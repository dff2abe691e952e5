//! SHA-256 digests, which identify policy files.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file, written as `sha256sum` writes it: 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 32 bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        hex(text).map(Self).ok_or_else(|| ParseDigestError(text.to_owned()))
    }
}

/// Decodes exactly 2 × `N` hexadecimal digits; `None` if the text is anything else.
pub(crate) fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        // `from_str_radix` accepts a sign.
        *byte = u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))?;
    }
    Some(bytes)
}

/// The text is not a [`Digest`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid SHA-256 '{0}': expected 64 hexadecimal digits")]
pub struct ParseDigestError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_parse_inverts_display() {
        let digest = Digest::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(format!("{digest:?}"), format!("Digest({text})"));
        assert_eq!(text.parse(), Ok(digest));
    }

    #[test]
    fn digest_parse_rejects_invalid_text() {
        let long = format!("{}0", Digest::of(b""));
        let signed = "+0".repeat(32);
        let foreign = "é".repeat(32);
        for text in ["", "e3b0", &long, &signed, &foreign] {
            assert!(text.parse::<Digest>().is_err(), "{text} was accepted");
        }
    }
}
