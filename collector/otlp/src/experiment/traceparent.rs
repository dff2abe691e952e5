//! W3C Trace Context: `traceparent` and `tracestate`.
//!
//! <https://www.w3.org/TR/trace-context/>.

use std::fmt;
use std::str::FromStr;

use super::ids::{SpanId, TraceId};

/// Trace flags. Bits that the standard does not define are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFlags(u8);

impl TraceFlags {
    /// Spans are recorded.
    pub const SAMPLED: Self = Self(0b01);

    /// The rightmost bytes of the trace ID are random, so that others can sample by it.
    pub const RANDOM: Self = Self(0b10);

    /// From the byte on the wire.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & (Self::SAMPLED.0 | Self::RANDOM.0))
    }

    /// The byte on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether spans are recorded.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED.0 != 0
    }

    /// The same flags, sampled or not.
    #[must_use]
    pub const fn with_sampled(self, sampled: bool) -> Self {
        Self(self.0 & !Self::SAMPLED.0 | if sampled { Self::SAMPLED.0 } else { 0 })
    }
}

/// A remote span, as `traceparent` identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its span.
    pub span_id: SpanId,
    /// Its flags.
    pub flags: TraceFlags,
}

/// Why a `traceparent` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceParentError {
    /// Invalid form.
    #[error("invalid traceparent {0:?}: expected {form}", form = FORM)]
    Malformed(String),
    /// An all-zero ID.
    #[error("invalid traceparent {0:?}: expected {nonzero}", nonzero = NONZERO)]
    Zero(String),
}

const FORM: &str = "VERSION-TRACE-SPAN-FLAGS in lowercase hex, as in \
                    00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NONZERO: &str = "IDs that are not all zero";

impl TraceParentError {
    /// What a valid text would contain.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        match self {
            Self::Malformed(_) => FORM,
            Self::Zero(_) => NONZERO,
        }
    }
}

/// Version 00, and later versions as far as they keep its fields.
impl FromStr for TraceParent {
    type Err = TraceParentError;

    fn from_str(text: &str) -> Result<Self, TraceParentError> {
        let malformed = || TraceParentError::Malformed(shown(text));
        let mut fields = text.split('-');
        let mut field = || fields.next().unwrap_or_default();
        let [version] = from_hex(field()).ok_or_else(malformed)?;
        let trace_id = from_hex(field()).ok_or_else(malformed)?;
        let span_id = from_hex(field()).ok_or_else(malformed)?;
        let [flags] = from_hex(field()).ok_or_else(malformed)?;
        let goes_on = fields.next().is_some();
        if version == 0xff || (version == 0 && goes_on) {
            return Err(malformed());
        }
        let zero = || TraceParentError::Zero(shown(text));
        Ok(Self {
            trace_id: TraceId::new(trace_id).ok_or_else(zero)?,
            span_id: SpanId::new(span_id).ok_or_else(zero)?,
            flags: TraceFlags::from_bits(flags),
        })
    }
}

/// In version 00.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags.bits())
    }
}

/// The `tracestate` of a trace, kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceState(String);

impl TraceState {
    /// Maximum length that is propagated, the minimum in the standard; it is part of every span.
    pub const MAX_LENGTH: usize = 512;

    /// Maximum number of members.
    pub const MAX_MEMBERS: usize = 32;

    /// The text, unchanged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text is not a valid `tracestate`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid tracestate {0:?}: expected up to 32 KEY=VALUE, separated by commas, in at most 512 \
     printable ASCII characters"
)]
pub struct TraceStateError(String);

impl FromStr for TraceState {
    type Err = TraceStateError;

    fn from_str(text: &str) -> Result<Self, TraceStateError> {
        let members = || text.split(',').map(str::trim).filter(|member| !member.is_empty());
        let is_member = |member: &str| {
            member.split_once('=').is_some_and(|(key, value)| {
                !key.is_empty() && !value.is_empty() && !value.contains('=')
            })
        };
        let good = text.len() <= Self::MAX_LENGTH
            && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
            && members().count() <= Self::MAX_MEMBERS
            && members().all(is_member);
        if good { Ok(Self(text.to_owned())) } else { Err(TraceStateError(shown(text))) }
    }
}

/// Exactly `N` bytes in lowercase hex digits.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// An excerpt of a text for a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each line of the table: an input, and its meaning or why it is rejected.
    #[test]
    fn traceparent_parsing_matches_table() {
        let table = include_str!("../../tests/fixtures/traceparent.txt");
        let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut count = 0;
        for line in lines {
            let (given, meant) = line.split_once(" => ").unwrap();
            let read = match given.parse::<TraceParent>() {
                Ok(parent) => parent.to_string(),
                Err(TraceParentError::Malformed(_)) => "malformed".to_owned(),
                Err(TraceParentError::Zero(_)) => "zero".to_owned(),
            };
            assert_eq!(read, meant, "{given}");
            count += 1;
        }
        assert!(count > 20, "the table is whole");
    }

    #[test]
    fn tracestate_is_kept_unchanged_or_rejected() {
        let read = |text: &str| text.parse::<TraceState>().ok().map(|state| state.0);
        for text in ["", "a=1", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE,", "a@b=x y"] {
            assert_eq!(read(text), Some(text.to_owned()));
        }
        for text in ["a", "=1", "a=", "a=1=2", "a=\n", "a=é"] {
            assert_eq!(read(text), None, "{text:?} was taken");
        }
        assert_eq!(read(&"a=1,".repeat(33)), None);
        assert_eq!(read(&format!("a={}", "x".repeat(511))), None);
    }

    proptest! {
        #[test]
        fn traceparent_round_trips(trace: [u8; 16], span: [u8; 8], flags: u8) {
            prop_assume!(trace != [0; 16] && span != [0; 8]);
            let parent = TraceParent {
                trace_id: TraceId::new(trace).unwrap(),
                span_id: SpanId::new(span).unwrap(),
                flags: TraceFlags::from_bits(flags),
            };
            prop_assert_eq!(parent.to_string().parse(), Ok(parent));
        }

        #[test]
        fn nothing_panics(text: String, near in "[0-9a-fA-F-]{50,60}") {
            for text in [text, near] {
                let _ = text.parse::<TraceState>();
                if let Ok(parent) = text.parse::<TraceParent>() {
                    prop_assert_eq!(parent.to_string().parse(), Ok(parent));
                }
            }
        }
    }
}
