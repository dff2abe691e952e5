//! Reads short numbers and texts eight bytes at once (SWAR): loops over a varying number of bytes would
//! dominate the parsing of a row.

use crate::log::lines::AHEAD;

/// The beginning of a line and what follows it.
pub(super) type Ahead = [u8; AHEAD];

/// The same byte in all places of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each byte.
const HIGH: u64 = 0x80 * EACH;

/// Added to a byte, sets its highest bit if it is above 9.
const ABOVE_9: u64 = 0x7F - 9;

/// The eight bytes at an offset, the first one lowest.
#[inline(always)]
pub(super) fn word(bytes: &Ahead, at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Digits as numbers, and other bytes above 9.
#[inline(always)]
const fn values(word: u64) -> u64 {
    word ^ (b'0' as u64 * EACH)
}

/// The number of digits at the beginning of a word of values, in bits; `None` if all are digits.
#[inline(always)]
const fn digit_bits(values: u64) -> Option<u32> {
    // A carry reaches only the bytes after the first that is not a digit.
    let others = (values.wrapping_add(ABOVE_9 * EACH) | values) & HIGH;
    if others == 0 { None } else { Some(others.trailing_zeros() - 7) }
}

/// The number of which these are the digits, the last one highest.
#[inline(always)]
const fn join(digits: u64) -> u64 {
    // Joins adjacent numbers to two, four and eight digits.
    let twos = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (odd, even) = (twos & 0x0000_00FF_0000_00FF, (twos >> 16) & 0x0000_00FF_0000_00FF);
    let odd = odd.wrapping_mul(100 + (1_000_000 << 32));
    let even = even.wrapping_mul(1 + (10_000 << 32));
    odd.wrapping_add(even) >> 32
}

/// The number of up to 15 digits at an offset, and the offset after it.
#[inline(always)]
pub(super) fn integer(bytes: &Ahead, at: usize) -> Option<(u64, usize)> {
    let first = values(word(bytes, at)?);
    match digit_bits(first) {
        Some(0) => None,
        Some(bits) => Some((join(first << (u64::BITS - bits)), at + bits as usize / 8)),
        None => {
            let second = values(word(bytes, at + 8)?);
            let bits = digit_bits(second)?;
            let (low, unit) = match bits {
                0 => (0, 1),
                bits => (join(second << (u64::BITS - bits)), 10_u64.pow(bits / 8)),
            };
            Some((join(first) * unit + low, at + 8 + bits as usize / 8))
        }
    }
}

/// The number at an offset in hundredths, an integer or with two decimals, of up to 7 digits and up
/// to 5 before decimals; and the offset after it.
#[inline(always)]
pub(super) fn hundredths(bytes: &Ahead, at: usize) -> Option<(u64, usize)> {
    const POINT: u64 = values(b'.' as u64) & 0xFF;
    let first = values(word(bytes, at)?);
    let bits = digit_bits(first).filter(|bits| *bits > 0)?;
    let (whole, after) = (join(first << (u64::BITS - bits)), at + bits as usize / 8);
    if (first >> bits) & 0xFF != POINT {
        return Some((whole * 100, after));
    }
    let decimals = first.checked_shr(bits + 8)?;
    let (tenths, hundredths) = (decimals & 0xFF, (decimals >> 8) & 0xFF);
    // Both are in the word.
    let is_short = bits <= u64::BITS - 24;
    (is_short && tenths.max(hundredths) <= 9)
        .then_some((whole * 100 + tenths * 10 + hundredths, after + 3))
}

/// The offset of the first comma or control character at or after an offset.
#[inline]
pub(super) fn text_end(bytes: &Ahead, mut at: usize) -> Option<usize> {
    loop {
        let word = word(bytes, at)?;
        let commas = word ^ (u64::from(b',') * EACH);
        // A borrow reaches only the bytes after the first that is found.
        let commas = commas.wrapping_sub(EACH) & !commas;
        let controls = word.wrapping_sub(u64::from(b' ') * EACH) & !word;
        let found = (commas | controls) & HIGH;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
}

/// Milliseconds since the minute, in the text `:27.123` after any byte.
#[inline]
pub(super) fn milliseconds_in_minute(text: [u8; 8]) -> Option<u64> {
    const TEXT: u64 = u64::from_le_bytes(*b"\0:00.000");
    /// Added to a byte, each sets its highest bit if the byte is above the maximum.
    const ABOVE: u64 = 0x7F * EACH - u64::from_le_bytes([0, 0, 5, 9, 0, 9, 9, 9]);
    let digits = (u64::from_le_bytes(text) ^ TEXT) & !0xFF;
    if (digits.wrapping_add(ABOVE) | digits) & HIGH != 0 {
        return None;
    }
    let twos = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let byte = |word: u64, at: u32| (word >> (8 * at)) & 0xFF;
    Some(byte(twos, 2) * 1_000 + byte(digits, 5) * 100 + byte(twos, 6))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ahead(text: &str) -> Ahead {
        std::array::from_fn(|at| text.as_bytes().get(at).copied().unwrap_or(b'\n'))
    }

    proptest! {
        #[test]
        fn integer_is_that_of_the_text(before in "[0-9]{0,3}", text in "[0-9]{0,17}[ -~]{0,9}") {
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let expected = text[..digits].parse::<u64>().ok().filter(|_| digits <= 15);
            let found = integer(&ahead(&format!("{before}{text}")), before.len());
            prop_assert_eq!(found, expected.map(|number| (number, before.len() + digits)));
        }

        #[test]
        fn hundredths_are_those_of_the_text(text in "[0-9]{0,9}(\\.[0-9]{0,3})?[ -~]{0,3}") {
            let bytes = text.as_bytes();
            let count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let whole = count(bytes);
            let (end, valid) = match bytes.get(whole) {
                Some(b'.') => (whole + 3, whole <= 5 && count(&bytes[whole + 1..]) >= 2),
                _ => (whole, whole <= 7),
            };
            let number = |range| text.get::<std::ops::Range<usize>>(range)?.parse::<u64>().ok();
            let decimals = number(whole + 1..end).unwrap_or_default();
            let expected = number(0..whole).filter(|_| valid).map(|it| (it * 100 + decimals, end));
            prop_assert_eq!(hundredths(&ahead(&text), 0), expected);
        }

        #[test]
        fn text_ends_before_comma_or_control(text in "[ -+--~é]{0,90}", end in "[,\r\n\t]") {
            let bytes = ahead(&format!("{text}{end}{text}"));
            prop_assert_eq!(text_end(&bytes, 0), Some(text.len()));
        }

        #[test]
        fn milliseconds_are_those_of_the_text(text in "[0-9 ][:;][0-6][0-:][.,][/-9][0-9]{2}") {
            let at = |range| text.get::<std::ops::Range<usize>>(range)?.parse::<u64>().ok();
            let is_time = text.as_bytes()[1] == b':' && text.as_bytes()[4] == b'.';
            let time = at(2..4).zip(at(5..8)).filter(|(second, _)| is_time && *second < 60);
            let expected = time.map(|(second, millis)| second * 1_000 + millis);
            prop_assert_eq!(milliseconds_in_minute(text.as_bytes().try_into().unwrap()), expected);
        }
    }
}
