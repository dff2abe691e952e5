//! Which spans are priced: by name, or by attribute.

use std::str::FromStr;

/// Rules, at least one of which a span must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// The name matches a glob.
    Name(String),
    /// The value of an attribute matches a glob.
    Attribute { key: String, value: String },
}

impl Selection {
    /// Whether a span is chosen. `attribute` returns the text of an attribute.
    #[must_use]
    pub fn matches<T: AsRef<str>>(
        &self,
        name: &str,
        attribute: impl Fn(&str) -> Option<T>,
    ) -> bool {
        self.0.iter().any(|rule| match rule {
            Rule::Name(pattern) => glob(pattern, name),
            Rule::Attribute { key, value } => {
                attribute(key).is_some_and(|text| glob(value, text.as_ref()))
            }
        })
    }

    /// Whether it has no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Rules separated by commas: `train_step`, `llm_*`, `span.kind=server`.
impl FromStr for Selection {
    type Err = ParseSelectionError;

    fn from_str(text: &str) -> Result<Self, ParseSelectionError> {
        let rule = |rule: &str| match rule.trim().split_once('=') {
            _ if rule.trim().is_empty() => Err(ParseSelectionError),
            Some((key, value)) if key.is_empty() || value.is_empty() => Err(ParseSelectionError),
            Some((key, value)) => {
                Ok(Rule::Attribute { key: key.to_owned(), value: value.to_owned() })
            }
            None => Ok(Rule::Name(rule.trim().to_owned())),
        };
        text.split(',').map(rule).collect::<Result<_, _>>().map(Self)
    }
}

/// The text is not a list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected names or KEY=VALUE separated by commas, such as train_step,llm_*")]
pub struct ParseSelectionError;

/// Whether `text` matches `pattern`, in which `*` is any text and `?` any character. In linear time per
/// `*`, whatever the pattern.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // After the last `*`, and what it matched up to.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((after, matched)) => {
                    star = Some((after, matched + 1));
                    (p, t) = (after, matched + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match() {
        for (pattern, text, expected) in [
            ("train_step", "train_step", true),
            ("train_step", "train_steps", false),
            ("llm_*", "llm_request", true),
            ("*request", "llm_request", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?x", "éx", true),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn spans_are_chosen_by_name_or_attribute() {
        let selection: Selection = "train_step, rpc.service=chat*".parse().unwrap();
        let attribute = |key: &str| (key == "rpc.service").then(|| "chat.v1".to_owned());
        let none = |_: &str| None::<String>;
        assert!(selection.matches("train_step", none));
        assert!(selection.matches("POST /", attribute));
        assert!(!selection.matches("POST /", none));
        assert!(Selection::default().is_empty() && !Selection::default().matches("x", attribute));
    }

    #[test]
    fn malformed_rules_are_rejected() {
        for text in ["", "a,,b", "=x", "x="] {
            assert_eq!(text.parse::<Selection>(), Err(ParseSelectionError), "{text}");
        }
    }
}
