//! Values of a track: a range of numbers with a unit, constant or rising, or a word.
//!
//! Numbers are in thousandths, so that all arithmetic is on integers.

use crate::prng::Prng;

/// Thousandths of a unit.
pub(crate) type Thousandths = u64;

/// Numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: Thousandths,
    pub(crate) high: Thousandths,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Percent,
    Gibibytes,
    Watts,
    Celsius,
    Megahertz,
    Count,
}

/// Units and how they are written.
const UNITS: [(&str, Unit); 6] = [
    ("%", Unit::Percent),
    ("GiB", Unit::Gibibytes),
    ("W", Unit::Watts),
    ("C", Unit::Celsius),
    ("MHz", Unit::Megahertz),
    ("", Unit::Count),
];

/// The value of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// From the first range at the start of the stage to the second at its end.
    Numbers { from: Range, to: Range, unit: Unit },
    /// A word, such as `Active` or `[N/A]`.
    Word(String),
}

/// A level at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(Range, Unit),
    Word(&'a str),
}

impl Level {
    /// Parses `45..57%`, `40->79 GiB` or a word: `Active`, `[N/A]`, `P8`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_word = || {
            let of_word = |at: u8| at.is_ascii_alphanumeric() || at == b' ';
            text.starts_with('[')
                || (text.starts_with(|at: char| at.is_ascii_alphabetic())
                    && text.bytes().all(of_word))
        };
        Self::numbers(text).or_else(|| is_word().then(|| Self::Word(text.to_owned())))
    }

    fn numbers(text: &str) -> Option<Self> {
        let end = text.rfind(|character: char| character.is_ascii_digit())? + 1;
        let (numbers, unit) = text.split_at_checked(end)?;
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        let (from, to) = match numbers.split_once("->") {
            Some((from, to)) => (range(from)?, range(to)?),
            None => (range(numbers)?, range(numbers)?),
        };
        Some(Self::Numbers { from, to, unit: *unit })
    }

    /// The value after `passed` of `length`.
    pub(crate) fn at(&self, passed: u64, length: u64) -> Value<'_> {
        match self {
            Self::Numbers { from, to, unit } => {
                let between = |from: u64, to: u64| {
                    (from * length.saturating_sub(passed) + to * passed) / length.max(1)
                };
                let range =
                    Range { low: between(from.low, to.low), high: between(from.high, to.high) };
                Value::Number(range, *unit)
            }
            Self::Word(word) => Value::Word(word),
        }
    }
}

impl Range {
    /// A number of the range.
    pub(crate) fn draw(self, noise: &mut Prng) -> Thousandths {
        noise.within(self.low, self.high)
    }
}

/// Parses `45..57` or `45`.
fn range(text: &str) -> Option<Range> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let range = Range { low: thousandths(low.trim())?, high: thousandths(high.trim())? };
    (range.low <= range.high).then_some(range)
}

/// Parses a number with up to three decimals.
pub(crate) fn thousandths(text: &str) -> Option<Thousandths> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 3 || whole.len() > 9 {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1_000 + format!("{decimals:0<3}").parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_parses_ranges_ramps_and_words() {
        let numbers = |from: (u64, u64), to: (u64, u64), unit| {
            let range = |(low, high)| Range { low, high };
            Level::Numbers { from: range(from), to: range(to), unit }
        };
        let fixed = |low, high, unit| numbers((low, high), (low, high), unit);
        assert_eq!(Level::parse("45..57%"), Some(fixed(45_000, 57_000, Unit::Percent)));
        assert_eq!(Level::parse("0.5 GiB"), Some(fixed(500, 500, Unit::Gibibytes)));
        assert_eq!(Level::parse("4"), Some(fixed(4_000, 4_000, Unit::Count)));
        assert_eq!(
            Level::parse("40..41->79 GiB"),
            Some(numbers((40_000, 41_000), (79_000, 79_000), Unit::Gibibytes))
        );
        for word in ["Active", "Not Active", "[N/A]"] {
            assert_eq!(Level::parse(word), Some(Level::Word(word.to_owned())));
        }
        for invalid in ["57..45%", "4 parsecs", "5..2s 1%"] {
            assert_eq!(Level::parse(invalid), None);
        }
    }

    #[test]
    fn ramp_moves_linearly() {
        let level = Level::parse("40->80 GiB").unwrap();
        let at = |passed| level.at(passed, 4_000);
        let fixed = |low| Value::Number(Range { low, high: low }, Unit::Gibibytes);
        assert_eq!([at(0), at(1_000), at(4_000)], [fixed(40_000), fixed(50_000), fixed(80_000)]);
    }
}
