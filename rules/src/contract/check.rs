//! Nothing that a guest returns is believed before it passed here.
//!
//! Checks gather what is wrong rather than stop at the first, so that an author mends it at once.
//! This room must not know what the values are for.

use phasemeter_meter::savings::fraction::Fraction;

use crate::error::{PolicyError, Violation, sanitize};

/// The most violations that are told: a guest that got everything wrong is told the first few.
const TOLD: usize = 8;

/// What was found wrong with an answer so far.
#[derive(Debug, Default)]
pub(super) struct Check {
    violations: Vec<Violation>,
}

impl Check {
    /// The value, if nothing was found wrong.
    pub(super) fn done<T>(self, value: T) -> Result<T, PolicyError> {
        if self.violations.is_empty() { Ok(value) } else { Err(self.fault()) }
    }

    pub(super) fn fault(self) -> PolicyError {
        PolicyError::Invalid(self.violations)
    }

    pub(super) fn wrong(&mut self, at: &str, problem: impl Into<String>) {
        if self.violations.len() < TOLD {
            self.violations.push(Violation { at: at.to_owned(), problem: problem.into() });
        }
    }

    /// `Some` if it is; told if it is not.
    pub(super) fn some<T>(&mut self, at: &str, value: Option<T>, problem: &str) -> Option<T> {
        if value.is_none() {
            self.wrong(at, problem);
        }
        value
    }

    /// How many there are of something.
    pub(super) fn count(&mut self, at: &str, count: usize, least: usize, most: usize) {
        if !(least..=most).contains(&count) {
            self.wrong(at, format!("has {count} members, and may have {least} to {most}"));
        }
    }

    /// A finite number. −0 becomes 0.
    pub(super) fn finite(&mut self, at: &str, value: f64) -> f64 {
        if !value.is_finite() {
            self.wrong(at, format!("is {value}, and must be finite"));
        }
        value + 0.0
    }

    /// A fraction, 0–1.
    pub(super) fn fraction(&mut self, at: &str, value: f64) -> Fraction {
        let fraction = Fraction::new(value);
        self.some(at, fraction, &format!("is {value}, and must be 0 to 1")).unwrap_or_default()
    }

    /// One visible line of 1 to `most` bytes.
    pub(super) fn line(&mut self, at: &str, text: String, most: usize) -> String {
        self.text(at, &text, most, &[]);
        text
    }

    /// Visible lines of 1 to `most` bytes together.
    pub(super) fn prose(&mut self, at: &str, text: String, most: usize) -> String {
        self.text(at, &text, most, &['\n']);
        text
    }

    fn text(&mut self, at: &str, text: &str, most: usize, allowed: &[char]) {
        if text.trim().is_empty() {
            self.wrong(at, "is empty");
        } else if text.len() > most {
            self.wrong(at, format!("has {} bytes, and may have {most}", text.len()));
        } else if text.chars().any(|c| c.is_control() && !allowed.contains(&c)) {
            self.wrong(at, "has control characters");
        }
    }

    /// A name for machines: 1–64 of `a`–`z`, `0`–`9`, `-` and what `also` has, a letter first.
    pub(super) fn name(&mut self, at: &str, text: String, also: &str) -> String {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.len() > 64
            || !text.starts_with(|c: char| c.is_ascii_lowercase())
            || !text.chars().all(|c| fits(c) || also.contains(c))
        {
            let shown = sanitize(&text, 80);
            self.wrong(
                at,
                format!("is '{shown}', and must be 1–64 of a–z, 0–9, -{also}, a letter first"),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(check: impl FnOnce(&mut Check)) -> Vec<String> {
        let mut found = Check::default();
        check(&mut found);
        found.violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn numbers_are_finite_and_in_range() {
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert_eq!(told(|c| _ = c.finite("x", value)).len(), 1);
            assert_eq!(told(|c| _ = c.fraction("x", value)).len(), 1);
        }
        assert_eq!(told(|c| _ = c.fraction("x", -0.1)), ["x is -0.1, and must be 0 to 1"]);
        let mut check = Check::default();
        assert!(check.finite("x", -0.0).is_sign_positive());
    }

    #[test]
    fn text_cannot_forge_lines() {
        let line = |text: &str| told(|c| drop(c.line("t", text.to_owned(), 5)));
        assert!(line("short").is_empty());
        assert_eq!(line("longer"), ["t has 6 bytes, and may have 5"]);
        assert_eq!(line(" "), ["t is empty"]);
        assert_eq!(line("a\nb"), ["t has control characters"]);
        assert_eq!(line("\u{1b}[1m"), ["t has control characters"]);
        assert!(told(|c| drop(c.prose("t", "a\nb".to_owned(), 5))).is_empty());
    }

    #[test]
    fn names_are_plain() {
        let name = |text: &str| told(|c| drop(c.name("n", text.to_owned(), "._"))).is_empty();
        assert!(name("idle.mig_7-2"));
        for bad in ["", "9", "Idle", "é", "a b", "a/b", &"a".repeat(65)] {
            assert!(!name(bad), "{bad} was taken");
        }
    }

    #[test]
    fn what_is_told_is_bounded() {
        let all = told(|c| (0..1_000).for_each(|_| c.wrong("x", "is wrong")));
        assert_eq!(all.len(), TOLD);
    }
}
