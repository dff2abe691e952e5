//! How many spans a sampled span represents, by the threshold of its trace state.
//!
//! OpenTelemetry's consistent probability samplers write it as `ot=th:…`.

/// The members of a trace state, and the fields of OpenTelemetry's member.
const MEMBER: &str = "ot=";
const FIELD: &str = "th:";

/// Hexadecimal digits of a threshold; trailing zeros may be omitted.
const DIGITS: usize = 14;

/// Random values are below this. Those below the threshold are not sampled.
const RANDOM_VALUES: u64 = 1 << 56;

/// The number of spans that a sampled span represents, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjustedCount(u32);

impl AdjustedCount {
    /// Units per span, as bits.
    pub(crate) const UNIT_BITS: u32 = 12;

    /// A span that represents itself.
    pub const ONE: Self = Self(1 << Self::UNIT_BITS);

    /// The most spans that one can represent: of a smaller share of spans, one costs next to nothing.
    pub const MAX: Self = Self(1 << (16 + Self::UNIT_BITS));

    /// By the value of a `tracestate`; `None` if it has no threshold, or a malformed one: then it is not
    /// known how many spans were not sampled.
    #[must_use]
    pub fn from_trace_state(text: &str) -> Option<Self> {
        let members = text.split(',').map(str::trim);
        let member = only(members.filter_map(|it| it.strip_prefix(MEMBER)))?;
        let digits = only(member.split(';').filter_map(|it| it.strip_prefix(FIELD)))?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !(1..=DIGITS).contains(&digits.len()) || !digits.bytes().all(is_digit) {
            return None;
        }
        let threshold = u64::from_str_radix(&format!("{digits:0<DIGITS$}"), 16).ok()?;
        let sampled = u128::from(RANDOM_VALUES.checked_sub(threshold)?);
        let units = (u128::from(RANDOM_VALUES) << Self::UNIT_BITS) / sampled;
        Some(u32::try_from(units).map_or(Self::MAX, |units| Self(units.min(Self::MAX.0))))
    }

    /// In units of 1 ÷ 2^[`Self::UNIT_BITS`].
    pub(crate) const fn units(self) -> u32 {
        self.0
    }
}

/// The item, if there is exactly one.
fn only<'a>(mut items: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    items.next().filter(|_| items.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_gives_the_number_of_spans() {
        let spans = |text: &str| {
            let count = AdjustedCount::from_trace_state(text).unwrap();
            f64::from(count.units()) / f64::from(AdjustedCount::ONE.units())
        };
        for (text, expected) in [
            ("ot=th:0", 1.0),
            ("ot=th:00000000000000", 1.0),
            ("ot=th:8", 2.0),
            ("ot=th:c", 4.0),
            ("ot=th:e6666666666668", 10.0),
            ("ot=th:e666", 10.0),
            ("vendor=th:8, ot=rv:abcdef01234567;th:c0;x:1 ,b=1", 4.0),
            ("ot=th:b33333", 10.0 / 3.0),
            ("ot=th:ffffffffffffff", 65_536.0),
        ] {
            let found = spans(text);
            assert!((found - expected).abs() < expected / 4_000.0, "{text}: {found}");
        }
    }

    #[test]
    fn malformed_threshold_is_unknown() {
        for text in [
            "",
            "ot=",
            "ot=rv:abcdef01234567",
            "ot=th:",
            "ot=th:E6",
            "ot=th:g",
            "ot=th:+8",
            "ot=th:-8",
            "ot=th:0x8",
            "ot=th:8 ;rv:1",
            "ot=th:000000000000000",
            "ot=th:8;th:c",
            "ot=th:8,ot=th:c",
            "ot=p:3",
            "th:8",
            "xot=th:8",
            "OT=th:8",
            "ot=th:é",
        ] {
            assert_eq!(AdjustedCount::from_trace_state(text), None, "{text:?}");
        }
    }
}
