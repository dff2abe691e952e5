//! Cursor over the cells of one row, and parsing of single cells.
//!
//! Copies nothing.

use phasemeter_meter::reading::MissingReason;
use phasemeter_meter::units::Timestamp;

use super::timestamp::TimestampParser;

/// Numbers are parsed in units of 1/10,000, the finest resolution any column needs: 0.0001% is one
/// ppm.
pub(super) const SCALE: u64 = 10_u64.pow(DECIMALS);

/// Significant decimals.
const DECIMALS: u32 = 4;

/// Maximum digits of a valid number. That many still fit a `u64`.
const MAX_DIGITS: u32 = 15;

/// Maximum length of a name or ID, in bytes.
const MAX_TEXT: usize = 128;

/// The remaining cells of a row. Every method consumes the next cell, trimmed; past the end it
/// returns an empty one, and the row is incomplete.
pub(super) struct Cells<'a> {
    rest: &'a [u8],
    /// How often a cell ended with the row.
    ends: usize,
}

impl<'a> Cells<'a> {
    /// All cells of a row, given without its line ending.
    pub(super) const fn of(row: &'a [u8]) -> Self {
        Self { rest: row, ends: 0 }
    }

    /// Whether exactly the existing cells were consumed.
    pub(super) const fn is_complete(&self) -> bool {
        self.ends == 1
    }

    /// The next cell as raw text.
    #[inline]
    pub(super) fn text(&mut self) -> &'a [u8] {
        let (cell, rest) = split_cell(self.rest);
        self.advance_to(rest);
        cell.trim_ascii()
    }

    /// The next cell as an instant; `None` if it is not a valid timestamp.
    #[inline]
    pub(super) fn instant(&mut self, timestamps: &mut TimestampParser) -> Option<Timestamp> {
        timestamps.read(self.text())
    }

    /// The next cell as a number in units of 1/[`SCALE`], with further decimals truncated, alone or
    /// followed by `unit`.
    ///
    /// # Errors
    /// Returns the cell's text if it is not such a number.
    #[inline]
    pub(super) fn number(&mut self, unit: &str) -> Result<u64, &'a [u8]> {
        if let Some((value, after)) = decimal(skip_spaces(self.rest))
            && self.consume_suffix(after, unit)
        {
            return Ok(value);
        }
        Err(self.text())
    }

    /// Consumes the rest of a cell after its value; false if that is more than its unit.
    #[inline]
    fn consume_suffix(&mut self, after: &'a [u8], unit: &str) -> bool {
        if let [b',', rest @ ..] = after {
            self.rest = rest;
            return true;
        }
        let (suffix, rest) = split_cell(after);
        let suffix = suffix.trim_ascii();
        let is_end = suffix.is_empty() || suffix == unit.as_bytes();
        if is_end {
            self.advance_to(rest);
        }
        is_end
    }

    #[inline]
    fn advance_to(&mut self, rest: Option<&'a [u8]>) {
        self.ends += usize::from(rest.is_none());
        self.rest = rest.unwrap_or_default();
    }
}

/// A row without its leading spaces.
#[inline]
fn skip_spaces(row: &[u8]) -> &[u8] {
    match row {
        // nvidia-smi writes one space.
        [b' ', rest @ ..] if rest.first() != Some(&b' ') => rest,
        _ => row.trim_ascii_start(),
    }
}

/// The text before the first comma, and the text after it.
#[inline]
fn split_cell(row: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Cells are so short that a byte-wise scan beats a vectorized search.
    match row.iter().position(|byte| *byte == b',').and_then(|at| row.split_at_checked(at)) {
        Some((cell, rest)) => (cell, rest.get(1..)),
        None => (row, None),
    }
}

/// The decimal number at the start of `text`, in units of 1/[`SCALE`], and the remaining text.
/// Signs, exponents, and dots without digits on both sides are invalid.
#[inline]
fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, _, rest) = digits(text)?;
    let whole = whole * SCALE;
    let [b'.', rest @ ..] = rest else { return Some((whole, rest)) };
    let (part, count, rest) = digits(rest)?;
    let part = match count {
        1 => part * 1_000,
        2 => part * 100,
        3 => part * 10,
        _ => part / 10_u64.pow(count - DECIMALS),
    };
    Some((whole + part, rest))
}

/// The digits at the start of `text` as a number, their count, and the remaining text. `None` if
/// there are none or too many.
#[inline]
fn digits(text: &[u8]) -> Option<(u64, u32, &[u8])> {
    let (mut value, mut rest) = (0_u64, text);
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        rest = tail;
    }
    let count = u32::try_from(text.len() - rest.len()).ok()?;
    (1..=MAX_DIGITS).contains(&count).then_some((value, count, rest))
}

/// Why a utilization cell has this text instead of a value.
pub(super) fn missing_reason(text: &[u8]) -> MissingReason {
    match unbracketed(text) {
        b"N/A" | b"Not Supported" => MissingReason::NotSupported,
        b"GPU is lost" => MissingReason::Lost,
        _ => MissingReason::Unreadable,
    }
}

/// A cell with a name or ID. `None` if it is empty, a placeholder such as `[N/A]`, too long, or not
/// printable.
pub(super) fn text_value(cell: &[u8]) -> Option<&str> {
    let has_value = !cell.is_empty() && !cell.starts_with(b"[") && cell != b"N/A";
    let text = std::str::from_utf8(cell).ok()?;
    (has_value && text.len() <= MAX_TEXT && !text.contains(char::is_control)).then_some(text)
}

/// Strips the brackets that `nvidia-smi` puts around placeholders.
fn unbracketed(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(cell: &str) -> Option<u64> {
        Cells::of(cell.as_bytes()).number("W").ok()
    }

    #[test]
    fn number_accepts_its_unit() {
        for cell in ["71.25 W", " 71.25W ", "71.25", "71.250000000", "71.2500W", "0071.25"] {
            assert_eq!(number(cell), Some(712_500), "{cell:?}");
        }
        assert_eq!(number("71"), Some(710_000));
        assert_eq!(number("0.99999"), Some(9_999));
    }

    #[test]
    fn number_returns_text_of_invalid_cell() {
        for cell in ["", "W", "-3", "+3", ".5", "5.", "1e3", "71 MiB", "7 1", "0x10", "[N/A]"] {
            assert_eq!(number(cell), None, "{cell:?}");
        }
        assert_eq!(number(&"9".repeat(15)), Some(9_999_999_999_999_990_000));
        assert_eq!(number(&"9".repeat(16)), None);
    }

    #[test]
    fn cells_are_complete_at_end_of_row() {
        let mut cells = Cells::of(b"1, [N/A] ,x");
        assert_eq!(cells.number("%"), Ok(SCALE));
        assert_eq!(cells.number("%"), Err(&b"[N/A]"[..]));
        assert!(!cells.is_complete());
        assert_eq!(cells.text(), b"x");
        assert!(cells.is_complete());
        assert_eq!(cells.text(), b"");
        assert!(!cells.is_complete());
    }

    #[test]
    fn missing_reason_follows_placeholder() {
        assert_eq!(missing_reason(b"[N/A]"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"[Not Supported]"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"N/A"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"[GPU is lost]"), MissingReason::Lost);
        assert_eq!(missing_reason(b"[Unknown Error]"), MissingReason::Unreadable);
        assert_eq!(missing_reason(b""), MissingReason::Unreadable);
    }

    proptest! {
        /// Parsing plain decimals agrees with exact arithmetic on their digits, whatever follows.
        #[test]
        fn numbers_parse_exactly(
            (digits, all) in (1..=15_u32, any::<u64>()), fraction in "[0-9]{1,15}",
            tail in "( W)?(,[ 0-9.]{0,12})?",
        ) {
            let whole = all % 10_u64.pow(digits);
            let padded = format!("{fraction:0<4}");
            let expected = whole * SCALE + padded[..4].parse::<u64>().unwrap();
            prop_assert_eq!(number(&format!("{whole}.{fraction}{tail}")), Some(expected));
            prop_assert_eq!(number(&format!("{whole}{tail}")), Some(whole * SCALE));
        }

        /// For any bytes, parsing finds as many numbers as there are cells.
        #[test]
        fn number_consumes_each_cell_once(row in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut cells = Cells::of(&row);
            let count = (1..).find(|_| {
                _ = cells.number("%");
                cells.is_complete()
            });
            prop_assert_eq!(count, Some(row.split(|byte| *byte == b',').count()));
        }
    }
}
