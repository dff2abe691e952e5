//! The cells of one row: a cursor over its bytes, and what a cell can say.
//!
//! It copies nothing. It must not know which column a cell stands in.

use phasemeter_meter::reading::MissingReason;
use phasemeter_meter::units::Timestamp;

use super::timestamp::TimestampParser;

/// Numbers are read in units of 1/10,000, the finest that any column needs: 0.0001 % is one ppm.
pub(super) const SCALE: u64 = 10_u64.pow(DECIMALS);

/// Decimals that count.
const DECIMALS: u32 = 4;

/// With more digits a number is no value that a driver gave. As many still fit a `u64`.
const MAX_DIGITS: u32 = 15;

/// Longer texts are no name and no id.
const MAX_TEXT: usize = 128;

/// The cells of a row that are still to be read. Every method takes the next one, without the
/// spaces around it; where there is none it gives an empty one, and the row is torn.
pub(super) struct Cells<'a> {
    rest: &'a [u8],
    /// How often a cell ended with the row.
    ends: usize,
}

impl<'a> Cells<'a> {
    /// All cells of a row, which comes without its line end.
    pub(super) const fn of(row: &'a [u8]) -> Self {
        Self { rest: row, ends: 0 }
    }

    /// Whether exactly the cells that there are were taken.
    pub(super) const fn is_complete(&self) -> bool {
        self.ends == 1
    }

    /// The next cell as it stands.
    #[inline]
    pub(super) fn text(&mut self) -> &'a [u8] {
        let (cell, rest) = split_cell(self.rest);
        self.advance_to(rest);
        cell.trim_ascii()
    }

    /// The next cell as an instant; `None` where it is none that can be told.
    #[inline]
    pub(super) fn instant(&mut self, timestamps: &mut TimestampParser) -> Option<Timestamp> {
        let (at, after) = timestamps.read(skip_spaces(self.rest))?;
        self.consume_suffix(after, "").then_some(at)
    }

    /// The next cell as a number of 1/[`SCALE`], further decimals cut off, alone or followed
    /// by `unit`; else its text.
    #[inline]
    pub(super) fn number(&mut self, unit: &str) -> Result<u64, &'a [u8]> {
        if let Some((value, after)) = decimal(skip_spaces(self.rest))
            && self.consume_suffix(after, unit)
        {
            return Ok(value);
        }
        Err(self.text())
    }

    /// Takes what follows a value in its cell; false where that is more than its unit.
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

/// A row from its first byte that is no space.
#[inline]
fn skip_spaces(row: &[u8]) -> &[u8] {
    match row {
        // What nvidia-smi writes: one.
        [b' ', rest @ ..] if rest.first() != Some(&b' ') => rest,
        _ => row.trim_ascii_start(),
    }
}

/// What stands before the first comma, and what after it.
#[inline]
fn split_cell(row: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Cells are so short that no search does better than looking at each byte.
    match row.iter().position(|byte| *byte == b',').and_then(|at| row.split_at_checked(at)) {
        Some((cell, rest)) => (cell, rest.get(1..)),
        None => (row, None),
    }
}

/// The decimal number that `text` begins with, in units of 1/[`SCALE`], and what follows it.
/// A sign, an exponent, or a dot without digits on both sides is none.
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

/// The digits that `text` begins with, as a number and how many, and what follows them. `None`
/// for none, or for more than a driver gives.
#[inline]
fn digits(text: &[u8]) -> Option<(u64, u32, &[u8])> {
    if let Some(chunk) = text.first_chunk()
        && let (value, count @ 1..8) = leading_digits(*chunk)
    {
        return Some((value, count, text.get(count as usize..)?));
    }
    long_digits(text)
}

/// The same for a long number, or where less than eight bytes are left of the row.
fn long_digits(text: &[u8]) -> Option<(u64, u32, &[u8])> {
    let (mut value, mut rest) = (0_u64, text);
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        rest = tail;
    }
    let count = u32::try_from(text.len() - rest.len()).ok()?;
    (1..=MAX_DIGITS).contains(&count).then_some((value, count, rest))
}

/// The digits that eight bytes begin with, as a number and how many: all eight at once, since a
/// loop over digits whose number varies is what reading a row would spend most of its time on.
#[inline]
const fn leading_digits(bytes: [u8; 8]) -> (u64, u32) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The first byte is the lowest. What was a digit is now 0 to 9.
    let bytes = u64::from_le_bytes(bytes) ^ (b'0' as u64 * EACH);
    // The high bit of every byte that is more, at least of the first one that is.
    let others = (bytes.wrapping_add((0x80 - 10) * EACH) | bytes) & (0x80 * EACH);
    let bits = others.trailing_zeros() & !7;
    if bits == 0 {
        return (0, 0);
    }
    // The digits moved to the end, with zeros before them; then neighbours are joined to numbers
    // of two digits, four and eight.
    let ones = bytes << (64 - bits);
    let twos = ones.wrapping_mul(10).wrapping_add(ones >> 8);
    let (odd, even) = (twos & 0x0000_00FF_0000_00FF, (twos >> 16) & 0x0000_00FF_0000_00FF);
    let odd = odd.wrapping_mul(100 + (1_000_000 << 32));
    let even = even.wrapping_mul(1 + (10_000 << 32));
    (odd.wrapping_add(even) >> 32, bits / 8)
}

/// Why a cell that should hold a utilization holds this text instead.
pub(super) fn missing_reason(text: &[u8]) -> MissingReason {
    match unbracketed(text) {
        b"N/A" | b"Not Supported" => MissingReason::NotSupported,
        b"GPU is lost" => MissingReason::Lost,
        _ => MissingReason::Unreadable,
    }
}

/// A cell that names something: an id or a model. `None` where it is empty, says that there is
/// nothing to say (`[N/A]`), or is no text that could be shown.
pub(super) fn text_value(cell: &[u8]) -> Option<&str> {
    let has_value = !cell.is_empty() && !cell.starts_with(b"[") && cell != b"N/A";
    let text = std::str::from_utf8(cell).ok()?;
    (has_value && text.len() <= MAX_TEXT && !text.contains(char::is_control)).then_some(text)
}

/// A text without the brackets that `nvidia-smi` puts around what is no value.
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
    fn numbers_come_with_and_without_their_unit() {
        for cell in ["71.25 W", " 71.25W ", "71.25", "71.250000000", "71.2500W", "0071.25"] {
            assert_eq!(number(cell), Some(712_500), "{cell:?}");
        }
        assert_eq!(number("71"), Some(710_000));
        assert_eq!(number("0.99999"), Some(9_999));
    }

    #[test]
    fn what_is_no_number_is_text() {
        for cell in ["", "W", "-3", "+3", ".5", "5.", "1e3", "71 MiB", "7 1", "0x10", "[N/A]"] {
            assert_eq!(number(cell), None, "{cell:?}");
        }
        assert_eq!(number(&"9".repeat(15)), Some(9_999_999_999_999_990_000));
        assert_eq!(number(&"9".repeat(16)), None);
    }

    #[test]
    fn cells_end_with_the_row() {
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
    fn an_absence_has_its_reason() {
        assert_eq!(missing_reason(b"[N/A]"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"[Not Supported]"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"N/A"), MissingReason::NotSupported);
        assert_eq!(missing_reason(b"[GPU is lost]"), MissingReason::Lost);
        assert_eq!(missing_reason(b"[Unknown Error]"), MissingReason::Unreadable);
        assert_eq!(missing_reason(b""), MissingReason::Unreadable);
    }

    proptest! {
        /// Any plain decimal is read as exact arithmetic on its digits reads it, also where it is
        /// not the last thing in the row.
        #[test]
        fn numbers_are_exact(
            (digits, all) in (1..=15_u32, any::<u64>()), fraction in "[0-9]{1,15}",
            tail in "( W)?(,[ 0-9.]{0,12})?",
        ) {
            let whole = all % 10_u64.pow(digits);
            let padded = format!("{fraction:0<4}");
            let expected = whole * SCALE + padded[..4].parse::<u64>().unwrap();
            prop_assert_eq!(number(&format!("{whole}.{fraction}{tail}")), Some(expected));
            prop_assert_eq!(number(&format!("{whole}{tail}")), Some(whole * SCALE));
        }

        /// Whatever the bytes, reading them as numbers finds as many cells as there are.
        #[test]
        fn every_cell_is_taken_once(row in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut cells = Cells::of(&row);
            let count = (1..).find(|_| {
                _ = cells.number("%");
                cells.is_complete()
            });
            prop_assert_eq!(count, Some(row.split(|byte| *byte == b',').count()));
        }
    }
}
