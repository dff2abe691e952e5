//! Validates what a guest returns.
//!
//! A [`Validator`] collects all violations instead of stopping at the first, so that an author can
//! fix them together.

use phasemeter_savings::fraction::Fraction;
use phasemeter_terminal::escape::sanitize;

use crate::error::{PolicyError, Violation};

/// The most violations that are reported.
const MAX_VIOLATIONS: usize = 8;

/// Collects the violations in one response.
#[derive(Debug, Default)]
pub(super) struct Validator {
    violations: Vec<Violation>,
}

impl Validator {
    /// Returns `value` if there were no violations.
    pub(super) fn finish<T>(self, value: T) -> Result<T, PolicyError> {
        if self.violations.is_empty() { Ok(value) } else { Err(self.into_error()) }
    }

    pub(super) fn into_error(self) -> PolicyError {
        PolicyError::Invalid(self.violations)
    }

    /// Records a violation.
    pub(super) fn reject(&mut self, at: &str, problem: impl Into<String>) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation { at: at.to_owned(), problem: problem.into() });
        }
    }

    /// Records a violation if `value` is `None`.
    pub(super) fn require<T>(&mut self, at: &str, value: Option<T>, problem: &str) -> Option<T> {
        if value.is_none() {
            self.reject(at, problem);
        }
        value
    }

    /// The length of a list.
    pub(super) fn count(&mut self, at: &str, count: usize, min: usize, max: usize) {
        if !(min..=max).contains(&count) {
            self.reject(at, format!("has {count} items, expected {min} to {max}"));
        }
    }

    /// A finite number; −0 becomes 0.
    pub(super) fn finite(&mut self, at: &str, value: f64) -> f64 {
        if !value.is_finite() {
            self.reject(at, format!("is {value}, expected a finite number"));
        }
        value + 0.0
    }

    /// A fraction, 0–1.
    pub(super) fn fraction(&mut self, at: &str, value: f64) -> Fraction {
        let fraction = Fraction::new(value);
        self.require(at, fraction, &format!("is {value}, expected 0 to 1")).unwrap_or_default()
    }

    /// One printable line of 1 to `max` bytes.
    pub(super) fn line(&mut self, at: &str, text: String, max: usize) -> String {
        self.text(at, &text, max, &[]);
        text
    }

    /// Printable text of 1 to `max` bytes, which may contain line breaks.
    pub(super) fn paragraph(&mut self, at: &str, text: String, max: usize) -> String {
        self.text(at, &text, max, &['\n']);
        text
    }

    fn text(&mut self, at: &str, text: &str, max: usize, allowed: &[char]) {
        if text.trim().is_empty() {
            self.reject(at, "is empty");
        } else if text.len() > max {
            self.reject(at, format!("has {} bytes, expected at most {max}", text.len()));
        } else if text.chars().any(|c| c.is_control() && !allowed.contains(&c)) {
            self.reject(at, "contains control characters");
        }
    }

    /// A unit in UCUM: 1–32 of its characters, with braces and brackets in pairs.
    pub(super) fn unit(&mut self, at: &str, text: String) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "%./{}[]()_-+*^'".contains(c);
        let is_paired = |[open, close]: [char; 2]| {
            let step = |depth: i32, c| depth + i32::from(c == open) - i32::from(c == close);
            let mut depth = 0;
            text.chars().all(|c| {
                depth = step(depth, c);
                (0..=1).contains(&depth)
            }) && depth == 0
        };
        let is_valid = (1..=32).contains(&text.len())
            && text.chars().all(is_allowed)
            && [['{', '}'], ['[', ']']].into_iter().all(is_paired);
        if !is_valid {
            let unit = sanitize(&text, 40);
            self.reject(
                at,
                format!("has the unit '{unit}', expected UCUM such as s, By, 1, {{GPU}}"),
            );
        }
        text
    }

    /// An identifier: 1–64 of `a`–`z`, `0`–`9`, `-` and the characters in `also`, starting with a
    /// letter.
    pub(super) fn name(&mut self, at: &str, text: String, also: &str) -> String {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.len() > 64
            || !text.starts_with(|c: char| c.is_ascii_lowercase())
            || !text.chars().all(|c| is_allowed(c) || also.contains(c))
        {
            let name = sanitize(&text, 80);
            self.reject(
                at,
                format!("is '{name}', expected 1–64 of a–z, 0–9, -{also}, starting with a letter"),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(validate: impl FnOnce(&mut Validator)) -> Vec<String> {
        let mut validator = Validator::default();
        validate(&mut validator);
        validator.violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn number_must_be_finite_and_in_range() {
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert_eq!(violations(|v| _ = v.finite("x", value)).len(), 1);
            assert_eq!(violations(|v| _ = v.fraction("x", value)).len(), 1);
        }
        assert_eq!(violations(|v| _ = v.fraction("x", -0.1)), ["x is -0.1, expected 0 to 1"]);
        let mut validator = Validator::default();
        assert!(validator.finite("x", -0.0).is_sign_positive());
    }

    #[test]
    fn text_must_be_printable_and_within_its_limit() {
        let line = |text: &str| violations(|v| drop(v.line("t", text.to_owned(), 5)));
        assert!(line("short").is_empty());
        assert_eq!(line("longer"), ["t has 6 bytes, expected at most 5"]);
        assert_eq!(line(" "), ["t is empty"]);
        assert_eq!(line("a\nb"), ["t contains control characters"]);
        assert_eq!(line("\u{1b}[1m"), ["t contains control characters"]);
        assert!(violations(|v| drop(v.paragraph("t", "a\nb".to_owned(), 5))).is_empty());
    }

    #[test]
    fn name_must_be_an_identifier() {
        let is_valid =
            |text: &str| violations(|v| drop(v.name("n", text.to_owned(), "._"))).is_empty();
        assert!(is_valid("idle.mig_7-2"));
        for invalid in ["", "9", "Idle", "é", "a b", "a/b", &"a".repeat(65)] {
            assert!(!is_valid(invalid), "accepted '{invalid}'");
        }
    }

    #[test]
    fn violations_are_bounded() {
        let all = violations(|v| (0..1_000).for_each(|_| v.reject("x", "is invalid")));
        assert_eq!(all.len(), MAX_VIOLATIONS);
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(violations(|v| drop(v.name("n", "a".repeat(64), ""))).is_empty());
        for (count, expected) in [(1, 1), (2, 0), (3, 0), (4, 1)] {
            assert_eq!(violations(|v| v.count("x", count, 2, 3)).len(), expected, "{count}");
        }
    }

    #[test]
    fn valid_text_is_returned_unchanged() {
        let mut validator = Validator::default();
        assert_eq!(validator.name("n", "a-1".to_owned(), ""), "a-1");
        assert_eq!(validator.line("t", "one line".to_owned(), 8), "one line");
        assert_eq!(validator.paragraph("t", "two\nlines".to_owned(), 9), "two\nlines");
        assert!(validator.finish(()).is_ok());
    }
}
