//! References to variables of the environment in scalars, as OpenTelemetry's data model defines them.
//!
//! `${NAME}`, `${env:NAME}` and `${NAME:-default}` are replaced, once, and `$$` is `$`. What a variable contains is
//! not looked at again, neither as YAML nor as a reference.

use std::fmt::Write;

/// In place of what may be a secret.
pub(crate) const REDACTED: &str = "REDACTED";

/// Parts of the names of variables whose values are secrets.
const SECRETS: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "HEADERS", "_KEY"];

/// A text after substitution.
#[derive(Debug, Default)]
pub(crate) struct Substituted {
    pub(crate) text: String,
    /// Whether a variable is part of it.
    pub(crate) has_variable: bool,
    /// The same without the values of variables that are secrets by their names, if there are any.
    pub(crate) shown: Option<String>,
}

impl Substituted {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.shown.iter_mut().for_each(|shown| shown.push_str(text));
    }

    fn push_secret(&mut self, value: &str) {
        self.shown.get_or_insert_with(|| self.text.clone()).push_str(REDACTED);
        self.text.push_str(value);
    }
}

/// The most bytes of text of a document, after substitution and with aliases resolved.
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// The text after substitution, or the reference that is invalid. Once it is too large, the rest is left out.
pub(crate) fn substitute(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Substituted, String> {
    let mut out = Substituted::default();
    for (index, part) in text.split("$$").enumerate() {
        if index > 0 {
            out.push("$");
        }
        let mut rest = part;
        while let Some(start) = rest.find("${") {
            if out.text.len() > MAX_BYTES {
                return Ok(out);
            }
            let (before, reference) = rest.split_at(start);
            out.push(before);
            let content = &reference[2..];
            let is_end = |c: char| c == '}' || (c.is_control() && c != '\t');
            let end = content.find(is_end).unwrap_or(content.len());
            let (content, tail) = content.split_at(end);
            let Some(after) = tail.strip_prefix('}').filter(|_| !content.is_empty()) else {
                // No reference by its syntax, and none begins in it.
                out.push("${");
                out.push(content);
                rest = tail;
                continue;
            };
            rest = after;
            let (name, default) = parse(content).ok_or_else(|| quoted(content))?;
            out.has_variable = true;
            match lookup(name).filter(|value| !value.is_empty()) {
                Some(value) if is_secret(name) => out.push_secret(&value),
                Some(value) => out.push(&value),
                None => match default.filter(|default| !default.is_empty()) {
                    Some(default) if is_secret(name) => out.push_secret(default),
                    default => out.push(default.unwrap_or_default()),
                },
            }
        }
        out.push(rest);
    }
    Ok(out)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// The name of a variable and its default.
fn parse(content: &str) -> Option<(&str, Option<&str>)> {
    let content = content.strip_prefix("env:").unwrap_or(content);
    let (name, default) = match content.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (content, None),
    };
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    is_name.then_some((name, default))
}

/// A reference as it is shown: without its default, which may be a secret.
fn quoted(content: &str) -> String {
    let name = content.split_once(":-").map_or(content, |(name, _)| name);
    let mut shown = "${".to_owned();
    name.chars().take(40).for_each(|c| {
        // A string takes all.
        let _ = write!(shown, "{c}");
    });
    shown.push('}');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let value = match name {
            "STRING_VALUE" => "value",
            "BOOL_VALUE" => "true",
            "FLOAT_VALUE" => "1.1",
            "HEX_VALUE" => "0xdeadbeef",
            "INVALID_MAP_VALUE" => "value\nkey:value",
            "DO_NOT_REPLACE_ME" => "Never use this value",
            "REPLACE_ME" => "${DO_NOT_REPLACE_ME}",
            "VALUE_WITH_ESCAPE" => "value$$",
            "EMPTY" => "",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn substituted(text: &str) -> Result<String, String> {
        substitute(text, &lookup).map(|it| it.text)
    }

    /// The table of the specification.
    #[test]
    fn references_are_replaced_as_specified() {
        for (text, expected) in [
            ("${STRING_VALUE}", "value"),
            ("${BOOL_VALUE}", "true"),
            ("${HEX_VALUE}", "0xdeadbeef"),
            ("${env:STRING_VALUE}", "value"),
            ("${INVALID_MAP_VALUE}", "value\nkey:value"),
            ("foo ${STRING_VALUE} ${FLOAT_VALUE}", "foo value 1.1"),
            ("${UNDEFINED_KEY}", ""),
            ("${UNDEFINED_KEY:-fallback}", "fallback"),
            ("${EMPTY:-fallback}", "fallback"),
            ("${env:UNDEFINED_KEY:-}", ""),
            ("${REPLACE_ME}", "${DO_NOT_REPLACE_ME}"),
            ("${UNDEFINED_KEY:-${STRING_VALUE}}", "${STRING_VALUE}"),
            ("$${STRING_VALUE}", "${STRING_VALUE}"),
            ("$$${STRING_VALUE}", "$value"),
            ("$$$${STRING_VALUE}", "$${STRING_VALUE}"),
            ("$${STRING_VALUE:-fallback}", "${STRING_VALUE:-fallback}"),
            ("$${STRING_VALUE:-${STRING_VALUE}}", "${STRING_VALUE:-value}"),
            ("${UNDEFINED_KEY:-$${UNDEFINED_KEY}}", "${UNDEFINED_KEY:-${UNDEFINED_KEY}}"),
            ("${VALUE_WITH_ESCAPE}", "value$$"),
            ("a $$ b", "a $ b"),
            ("a $ b", "a $ b"),
            ("${}", "${}"),
            ("${STRING_VALUE", "${STRING_VALUE"),
            ("$STRING_VALUE", "$STRING_VALUE"),
            ("é${STRING_VALUE}é", "évalueé"),
        ] {
            assert_eq!(substituted(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn values_of_secrets_are_not_shown() {
        let lookup = |name: &str| Some(format!("value of {name}"));
        let shown = |text: &str| substitute(text, &lookup).unwrap().shown;
        assert_eq!(shown("${HOST}"), None);
        assert_eq!(
            shown("${A}/${API_TOKEN}/${B}").as_deref(),
            Some("value of A/REDACTED/value of B")
        );
    }

    /// Scenario: many beginnings of references that never end, or end behind a line break.
    #[test]
    fn time_is_linear() {
        for end in ["", "\n}"] {
            let text = "${".repeat(1 << 19) + end;
            assert_eq!(substituted(&text).unwrap(), text);
        }
    }

    #[test]
    fn invalid_references_are_errors_without_defaults() {
        for text in [
            "${STRING_VALUE:?error}",
            "${1API_KEY}",
            "${API_$KEY}",
            "${sys:user.name}",
            "${ STRING_VALUE}",
            "${a.b:-secret}",
        ] {
            let error = substituted(text).unwrap_err();
            assert!(error.starts_with("${") && !error.contains("secret"), "{text}: {error}");
        }
    }
}
