//! Order of policy versions.

use std::cmp::Ordering;

/// Compares versions: numbers by value, other text by bytes, and a version with a suffix after `-`
/// before the one without it, as in Semantic Versioning.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    // Build metadata has no precedence.
    let parts = |version: &str| {
        let version = version.split('+').next().unwrap_or_default().trim_start_matches('v');
        let (core, suffix) = version.split_once('-').unwrap_or((version, ""));
        (core.to_owned(), suffix.to_owned())
    };
    let ((a, a_suffix), (b, b_suffix)) = (parts(a), parts(b));
    let released = a_suffix.is_empty().cmp(&b_suffix.is_empty());
    identifiers(&a, &b).then(released).then_with(|| identifiers(&a_suffix, &b_suffix))
}

/// Compares identifiers that are separated by dots. Missing ones come first.
fn identifiers(a: &str, b: &str) -> Ordering {
    a.split('.').map(Identifier::of).cmp(b.split('.').map(Identifier::of))
}

/// A number comes before text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'a> {
    /// Digits without leading zeros; the longer is the larger.
    Number(usize, &'a str),
    Text(&'a str),
}

impl<'a> Identifier<'a> {
    fn of(text: &'a str) -> Self {
        let digits = text.trim_start_matches('0');
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            Self::Number(digits.len(), digits)
        } else {
            Self::Text(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_in_semantic_versioning() {
        let ascending = [
            "0.9.9",
            "0.10",
            "0.10.0",
            "1.0.0-1",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0",
            "1.2",
            "1.10",
            "2",
            "20261122",
            "18446744073709551616.0",
            "beta",
        ];
        for (at, a) in ascending.iter().enumerate() {
            for (to, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), at.cmp(&to), "{a} {b}");
            }
        }
        for (a, b) in [("1.0", "1.0+build"), ("v1.0", "1.0"), ("1.01", "1.1"), ("", "")] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
        }
    }
}
