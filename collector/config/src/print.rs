//! A document as YAML again, after substitution. What may be a secret is replaced.

use std::fmt::Write;

use crate::node::{Kind, Node, Value, kind_of};
use crate::substitution::REDACTED;

/// The document. Headers are replaced, as are users and queries in URLs, and all that others than Phasemeter read.
pub(crate) fn yaml(root: &Node) -> String {
    let mut out = String::new();
    block(&mut out, root, 0, &mut Vec::new());
    out
}

/// A list or mapping of several lines.
fn block<'a>(out: &mut String, node: &'a Node, depth: usize, path: &mut Vec<&'a str>) {
    let indent = "  ".repeat(depth);
    for item in node.items() {
        let text = inline(item, path).unwrap_or_else(|| {
            let mut text = String::new();
            block(&mut text, item, depth + 1, path);
            text.trim_matches([' ', '\n']).to_owned()
        });
        // A string takes all.
        let _ = writeln!(out, "{indent}- {text}");
    }
    for entry in node.entries() {
        path.push(&entry.key);
        // There are no references in keys.
        let key = quoted(&entry.key, Kind::Text).replace("$$", "$");
        match inline(&entry.node, path) {
            Some(text) => {
                // A string takes all.
                let _ = writeln!(out, "{}", format!("{indent}{key}: {text}").trim_end());
            }
            None => {
                // A string takes all.
                let _ = writeln!(out, "{indent}{key}:");
                block(out, &entry.node, depth + 1, path);
            }
        }
        path.pop();
    }
}

/// A value of one line.
fn inline(node: &Node, path: &[&str]) -> Option<String> {
    match &node.value {
        Value::Scalar(scalar) => {
            // A secret may look like a number.
            let kind = scalar.shown.as_ref().map_or(scalar.kind, |_| Kind::Text);
            Some(shown(scalar.shown.as_ref().unwrap_or(&scalar.text), kind, path))
        }
        Value::Sequence(items) if items.is_empty() => Some("[]".to_owned()),
        Value::Mapping(entries) if entries.is_empty() => Some("{}".to_owned()),
        _ => None,
    }
}

/// A value, unless it may be a secret.
fn shown(text: &str, kind: Kind, path: &[&str]) -> String {
    if kind == Kind::Null {
        return String::new();
    }
    let is_of_others = match path {
        ["distribution", name, ..] => *name != "phasemeter",
        [first, ..] => *first == "instrumentation/development",
        [] => false,
    };
    if is_of_others || path.ends_with(&["headers", "value"]) {
        return REDACTED.to_owned();
    }
    if path.ends_with(&["headers_list"]) {
        // One that is empty is none.
        let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
        let names = entries.map(|entry| entry.split('=').next().unwrap_or_default());
        let list: Vec<_> = names.map(|name| format!("{name}={REDACTED}")).collect();
        return quoted(&list.join(","), Kind::Text);
    }
    quoted(&without_credentials(text), kind)
}

/// A URL without user and query; any other text as it is.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, format!("?{REDACTED}")),
        None => (rest, String::new()),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{REDACTED}@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{path}{query}")
}

/// A scalar that is read again as the same.
fn quoted(text: &str, kind: Kind) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_/.".contains(c));
    let is_same = kind_of(text) == kind;
    if kind != Kind::Text || (starts && is_same && text.chars().all(is_plain)) {
        return text.to_owned();
    }
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // It begins no reference.
            '$' => out.push_str("$$"),
            c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) => {
                // A string takes all.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
