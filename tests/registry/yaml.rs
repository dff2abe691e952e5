//! Reads the YAML that the registry is written in: block mappings and sequences, flow mappings and
//! sequences on one line, plain and quoted scalars, comments.
//!
//! A subset, so that no test needs a parser of all of YAML; anything else is an error.

use serde_json::{Map, Value};

/// A line without its indentation and comment.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// The value of a document.
pub(crate) fn parse(document: &str) -> Result<Value, String> {
    let mut lines = Vec::new();
    for (index, line) in document.lines().enumerate() {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let text = text.trim_end();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if text.contains('\t') || text.contains(" #") {
            return Err(format!("line {}: tab, or comment after a value", index + 1));
        }
        lines.push(Line { number: index + 1, indent, text });
    }
    let mut at = 0;
    let value = block(&mut lines, &mut at)?;
    match lines.get(at) {
        None => Ok(value),
        Some(line) => Err(format!("line {}: unexpected indentation", line.number)),
    }
}

/// The mapping or sequence that begins at a line.
fn block(lines: &mut [Line<'_>], at: &mut usize) -> Result<Value, String> {
    let Some(first) = lines.get(*at) else { return Ok(Value::Null) };
    let indent = first.indent;
    if is_item(first.text) { sequence(lines, at, indent) } else { mapping(lines, at, indent) }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn sequence(lines: &mut [Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    while let Some(line) = lines.get_mut(*at)
        && line.indent == indent
        && is_item(line.text)
    {
        let rest = line.text[1..].trim_start();
        let inner = indent + line.text.len() - rest.len();
        if rest.is_empty() {
            *at += 1;
            items.push(nested(lines, at, indent)?);
        } else if rest.starts_with(['{', '[', '"', '\'']) || split_key(rest).is_none() {
            items.push(flow(rest, line.number)?);
            *at += 1;
        } else {
            // The mapping begins on the line of its dash.
            (line.indent, line.text) = (inner, rest);
            items.push(mapping(lines, at, inner)?);
        }
    }
    Ok(Value::Array(items))
}

fn mapping(lines: &mut [Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
    let mut map = Map::new();
    while let Some(line) = lines.get(*at)
        && line.indent == indent
        && !is_item(line.text)
    {
        let number = line.number;
        let (key, rest) =
            split_key(line.text).ok_or_else(|| format!("line {number}: expected KEY: VALUE"))?;
        let (key, rest) = (scalar_text(key), rest.to_owned());
        *at += 1;
        let value = if rest.is_empty() { nested(lines, at, indent)? } else { flow(&rest, number)? };
        if map.insert(key.clone(), value).is_some() {
            return Err(format!("line {number}: {key} twice"));
        }
    }
    Ok(Value::Object(map))
}

/// The block below a key or dash, which is indented further; a sequence below a key need not be.
fn nested(lines: &mut [Line<'_>], at: &mut usize, indent: usize) -> Result<Value, String> {
    match lines.get(*at) {
        Some(line) if line.indent > indent || line.indent == indent && is_item(line.text) => {
            block(lines, at)
        }
        _ => Ok(Value::Null),
    }
}

/// A key and what follows its colon, if the text has the form of an entry.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = match text.split_once(": ") {
        Some((key, rest)) => (key, rest.trim()),
        None => (text.strip_suffix(':')?, ""),
    };
    (!key.contains(['{', '[', '"', ' '])).then_some((key, rest))
}

/// A scalar, or a flow mapping or sequence, that ends with the line.
fn flow(text: &str, number: usize) -> Result<Value, String> {
    let mut rest = text;
    let value = flow_value(&mut rest, "").ok_or_else(|| format!("line {number}: {text}"))?;
    if rest.trim().is_empty() { Ok(value) } else { Err(format!("line {number}: {rest}")) }
}

/// The value at the start of `rest`, which a plain scalar ends before any of `ends`.
fn flow_value(rest: &mut &str, ends: &str) -> Option<Value> {
    *rest = rest.trim_start();
    let first = rest.chars().next()?;
    match first {
        '{' => {
            let mut map = Map::new();
            *rest = rest[1..].trim_start();
            while !rest.starts_with('}') {
                let (key, after) = rest.split_once(':')?;
                *rest = after;
                map.insert(scalar_text(key.trim()), flow_value(rest, ",}")?);
                *rest = rest.trim_start().strip_prefix(',').unwrap_or(rest).trim_start();
                if rest.is_empty() {
                    return None;
                }
            }
            *rest = &rest[1..];
            Some(Value::Object(map))
        }
        '[' => {
            let mut items = Vec::new();
            *rest = rest[1..].trim_start();
            while !rest.starts_with(']') {
                items.push(flow_value(rest, ",]")?);
                *rest = rest.trim_start().strip_prefix(',').unwrap_or(rest).trim_start();
                if rest.is_empty() {
                    return None;
                }
            }
            *rest = &rest[1..];
            Some(Value::Array(items))
        }
        '"' => {
            let end = rest[1..].find('"')? + 1;
            let text = &rest[1..end];
            *rest = &rest[end + 1..];
            // No escapes are needed.
            (!text.contains('\\')).then(|| Value::String(text.to_owned()))
        }
        '\'' | '|' | '>' | '&' | '*' | '!' => None,
        _ => {
            let end = if ends.is_empty() { None } else { rest.find(|c| ends.contains(c)) };
            let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
            *rest = after;
            Some(scalar(text.trim()))
        }
    }
}

fn scalar(text: &str) -> Value {
    match text {
        "null" | "~" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<i64>() {
            Ok(whole) => whole.into(),
            Err(_) => text.parse::<f64>().map_or_else(|_| text.into(), Into::into),
        },
    }
}

fn scalar_text(text: &str) -> String {
    text.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn registry_subset_of_yaml_is_read() {
        let document = "# comment\na: 1\nb:\n  - {k: v, l: [x, \"y, z\"]}\n  - name: n\n    deep:\n      \
                        note: \"{a.b}\"\n    list:\n    - x: 1.5\n- c\n";
        assert!(parse(document).is_err(), "a sequence after a mapping");
        let document = document.trim_end_matches("- c\n");
        let expected = json!({
            "a": 1,
            "b": [
                {"k": "v", "l": ["x", "y, z"]},
                {"name": "n", "deep": {"note": "{a.b}"}, "list": [{"x": 1.5}]},
            ],
        });
        assert_eq!(parse(document).unwrap(), expected);
        for text in ["a: |\n  x", "a: 1\na: 2", "a: 1 # c", "a: {b: 1", "a:\n    b: 1\n  c: 1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
