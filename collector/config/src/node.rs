//! A document as a tree, with the line of each value. Plain scalars have the types of YAML's core schema.

use crate::substitution::Substituted;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Its line, from 1.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A scalar, after substitution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Whether a variable of the environment is part of it.
    pub(crate) substituted: bool,
    /// The text without secrets, if a variable with one is part of it.
    pub(crate) shown: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Integer,
    Float,
    Text,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The line of the key.
    pub(crate) line: usize,
    pub(crate) node: Node,
}

impl Node {
    /// The value below these keys, separated by dots, if each is there.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The entries of a mapping; none of anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a sequence; none of anything else.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::Sequence(items) => items,
            _ => &[],
        }
    }

    pub(crate) const fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| scalar.kind == Kind::Null)
    }

    /// The text of a scalar that is not null, of a number in decimals.
    pub(crate) fn text(&self) -> Option<String> {
        self.scalar().filter(|scalar| scalar.kind != Kind::Null).map(Scalar::canonical)
    }
}

impl Scalar {
    /// A plain scalar, whose type follows from its text.
    pub(crate) fn plain(substituted: Substituted) -> Self {
        let kind = kind_of(&substituted.text);
        Self::of(substituted, kind)
    }

    pub(crate) fn of(substituted: Substituted, kind: Kind) -> Self {
        let Substituted { text, has_variable, shown } = substituted;
        Self { text, kind, substituted: has_variable, shown }
    }

    /// Integers in decimals, as other parsers expect them; else the text.
    fn canonical(&self) -> String {
        let radix = [("0x", 16), ("0o", 8)];
        let digits = |(prefix, radix)| Some((self.text.strip_prefix(prefix)?, radix));
        let found = radix.into_iter().find_map(digits).filter(|_| self.kind == Kind::Integer);
        match found.and_then(|(digits, radix)| u64::from_str_radix(digits, radix).ok()) {
            Some(number) => number.to_string(),
            None => self.text.clone(),
        }
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.kind {
            Kind::Integer | Kind::Float => self.canonical().parse().ok(),
            _ => None,
        }
    }
}

/// The type of a plain scalar in the core schema of YAML 1.2.
pub(crate) fn kind_of(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Kind::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => return Kind::Boolean,
        ".nan" | ".NaN" | ".NAN" => return Kind::Float,
        _ => {}
    }
    let is_all = |digits: &str, is: fn(char) -> bool| !digits.is_empty() && digits.chars().all(is);
    let prefixed = text.strip_prefix("0x").is_some_and(|it| is_all(it, |c| c.is_ascii_hexdigit()))
        || text.strip_prefix("0o").is_some_and(|it| is_all(it, |c| ('0'..='7').contains(&c)));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| is_all(text, |c| c.is_ascii_digit());
    if prefixed || digits(unsigned) {
        return Kind::Integer;
    }
    if [".inf", ".Inf", ".INF"].contains(&unsigned) {
        return Kind::Float;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let none_or_digits = |text: &str| text.is_empty() || digits(text);
    let has_mantissa = !(whole.is_empty() && fraction.is_empty());
    let exponent = exponent.map(|it| it.strip_prefix(['-', '+']).unwrap_or(it));
    let is_float = has_mantissa
        && none_or_digits(whole)
        && none_or_digits(fraction)
        && exponent.is_none_or(digits);
    if is_float { Kind::Float } else { Kind::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        let cases = [
            (Kind::Null, vec!["", "~", "null", "NULL"]),
            (Kind::Boolean, vec!["true", "False", "TRUE"]),
            (Kind::Integer, vec!["0", "-12", "+3", "0o17", "0xdeadBEEF", "007"]),
            (Kind::Float, vec!["1.1", ".5", "2.", "1e3", "-1.5E-7", ".inf", "-.INF", ".nan"]),
            (
                Kind::Text,
                vec![
                    "yes", "on", "no", "1.1.1", "0x", "0o8", "-", ".", "e3", "1e", "1_000",
                    "-.nan", "1:30",
                ],
            ),
        ];
        for (kind, texts) in cases {
            for text in texts {
                assert_eq!(kind_of(text), kind, "{text:?}");
            }
        }
    }

    #[test]
    fn integers_of_another_base_are_given_on_in_decimals() {
        let node = |text: &str| Node {
            line: 1,
            value: Value::Scalar(Scalar::plain(Substituted {
                text: text.to_owned(),
                ..Substituted::default()
            })),
        };
        assert_eq!(node("0xdeadbeef").text().as_deref(), Some("3735928559"));
        assert_eq!(node("0o17").text().as_deref(), Some("15"));
        assert_eq!(node("1.10").text().as_deref(), Some("1.10"));
        assert_eq!(node("null").text(), None);
    }
}
