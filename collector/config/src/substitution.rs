//! References to variables of the environment in scalars, as OpenTelemetry's data model defines them.
//!
//! `${NAME}`, `${env:NAME}` and `${NAME:-default}` are replaced, once, and `$$` is `$`. What a variable contains is
//! not looked at again, neither as YAML nor as a reference.

use std::fmt::Write;

/// The text after substitution, and whether a variable is part of it; or the reference that is invalid.
pub(crate) fn substitute(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, bool), String> {
    let (mut out, mut substituted) = (String::with_capacity(text.len()), false);
    for (index, part) in text.split("$$").enumerate() {
        if index > 0 {
            out.push('$');
        }
        let mut rest = part;
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            out.push_str(before);
            let content = &reference[2..];
            let end = content.find('}').filter(|end| *end > 0);
            let printable =
                |end: usize| content[..end].chars().all(|c| !c.is_control() || c == '\t');
            let Some(end) = end.filter(|end| printable(*end)) else {
                // No reference by its syntax.
                out.push_str("${");
                rest = content;
                continue;
            };
            let content = &content[..end];
            let (name, default) = parse(content).ok_or_else(|| quoted(content))?;
            let value = lookup(name).filter(|value| !value.is_empty());
            out.push_str(value.as_deref().or(default).unwrap_or_default());
            substituted = true;
            rest = &reference[2 + end + 1..];
        }
        out.push_str(rest);
    }
    Ok((out, substituted))
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
        substitute(text, &lookup).map(|(text, _)| text)
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
