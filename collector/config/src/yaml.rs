//! Parses one YAML document within limits. Aliases are copies; tags are those of the core schema.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::finding::{Finding, Problem};
use crate::node::{Entry, Kind, Node, Scalar, Value, kind_of};
use crate::substitution::{MAX_BYTES, Substituted, substitute};

/// The most values of a document, aliases resolved.
const MAX_NODES: usize = 10_000;
/// The most levels of a document.
const MAX_DEPTH: usize = 64;
/// The most bytes of a key.
const MAX_KEY: usize = 1 << 10;

/// The tree of a document; `None` if it is empty; and its invalid references and duplicate keys. `lookup` returns the value
/// of a variable.
///
/// # Errors
/// The first error of syntax.
pub(crate) fn parse(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(Option<Node>, Vec<Finding>), Finding> {
    let mut builder = Builder {
        lookup,
        open: Vec::new(),
        anchors: BTreeMap::new(),
        nodes: 0,
        bytes: 0,
        root: None,
        findings: Vec::new(),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let problem = Problem::Yaml(error.info().to_owned());
            Finding::new(error.marker().line(), String::new(), problem)
        })?;
        let line = span.start.line();
        let added = builder.add(event, line);
        added.map_err(|problem| Finding::new(line, String::new(), problem))?;
    }
    Ok((builder.root, builder.findings))
}

struct Builder<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    open: Vec<Open>,
    /// Values with an anchor, and how many values each is.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    /// Bytes of text in values.
    bytes: usize,
    root: Option<Node>,
    findings: Vec<Finding>,
}

/// Bytes of text in the values of a node.
fn bytes(node: &Node) -> usize {
    match &node.value {
        Value::Scalar(scalar) => scalar.text.len(),
        Value::Sequence(items) => items.iter().map(bytes).sum(),
        Value::Mapping(entries) => entries.iter().map(|entry| bytes(&entry.node)).sum(),
    }
}

/// A collection that has not ended.
struct Open {
    anchor: usize,
    line: usize,
    /// The number of values before it.
    before: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    /// The entries, and the key whose value follows.
    Mapping(Vec<Entry>, Option<(String, usize)>),
}

impl Builder<'_> {
    fn add(&mut self, event: Event<'_>, line: usize) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if self.expects_key() {
                    return self.key(&text, line);
                }
                self.count(1)?;
                let node = self.scalar(&text, style, tag.as_deref(), line)?;
                self.value(node, anchor, 1)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(anchor, line, tag.as_deref(), Content::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(anchor, line, tag.as_deref(), Content::Mapping(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                if self.expects_key() {
                    return Err(Problem::Yaml("a key must be a scalar".to_owned()));
                }
                let unknown = || Problem::Yaml("an alias of what is not complete".to_owned());
                let (node, size) = self.anchors.get(&anchor).ok_or_else(unknown)?;
                let (size, bytes) = (*size, bytes(node));
                self.count(size)?;
                self.count_bytes(bytes)?;
                let mut node = self.anchors.get(&anchor).ok_or_else(unknown)?.0.clone();
                node.line = line;
                self.value(node, 0, size)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(Problem::Yaml("expected one document".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Mapping(_, None), .. }))
    }

    fn key(&mut self, text: &str, line: usize) -> Result<(), Problem> {
        self.count(1)?;
        if text.len() > MAX_KEY {
            return Err(Problem::TooLarge("1,024 bytes of a key"));
        }
        let path = self.path();
        if let Some(Open { content: Content::Mapping(entries, next), .. }) = self.open.last_mut() {
            if entries.iter().any(|entry| entry.key == text) {
                let key = join(&path, text);
                self.findings.push(Finding::new(line, key, Problem::Duplicate));
            }
            *next = Some((text.to_owned(), line));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        line: usize,
    ) -> Result<Node, Problem> {
        let substituted = match substitute(text, self.lookup) {
            Ok(substituted) => substituted,
            Err(reference) => {
                let problem = Problem::Reference(reference);
                self.findings.push(Finding::new(line, self.path(), problem));
                return Ok(Node { line, value: Value::Scalar(nothing()) });
            }
        };
        self.count_bytes(substituted.text.len())?;
        let scalar = match (tag.map(core_name).transpose()?, style) {
            (None, ScalarStyle::Plain) => Scalar::plain(substituted),
            (None, _) | (Some("str"), _) => Scalar::of(substituted, Kind::Text),
            (Some(name), _) => {
                let kind = kind_of(&substituted.text);
                let is_kind = matches!(
                    (name, kind),
                    ("null", Kind::Null)
                        | ("bool", Kind::Boolean)
                        | ("int", Kind::Integer)
                        | ("float", Kind::Float | Kind::Integer)
                );
                if !is_kind {
                    return Err(Problem::Value(format!("expected a value of the tag !!{name}")));
                }
                Scalar::of(substituted, kind)
            }
        };
        Ok(Node { line, value: Value::Scalar(scalar) })
    }

    fn begin(
        &mut self,
        anchor: usize,
        line: usize,
        tag: Option<&Tag>,
        content: Content,
    ) -> Result<(), Problem> {
        if self.expects_key() {
            return Err(Problem::Yaml("a key must be a scalar".to_owned()));
        }
        let expected = if matches!(content, Content::Sequence(_)) { "seq" } else { "map" };
        if tag.map(core_name).transpose()?.is_some_and(|name| name != expected) {
            return Err(Problem::Value(format!("expected the tag !!{expected} or none")));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Problem::TooLarge("64 levels"));
        }
        let before = self.nodes;
        self.count(1)?;
        self.open.push(Open { anchor, line, before, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(Open { anchor, line, before, content }) = self.open.pop() else { return Ok(()) };
        let value = match content {
            Content::Sequence(items) => Value::Sequence(items),
            Content::Mapping(entries, _) => Value::Mapping(entries),
        };
        self.value(Node { line, value }, anchor, self.nodes - before)
    }

    /// Puts a complete value in its place.
    fn value(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Problem> {
        if anchor > 0 {
            self.count_bytes(bytes(&node))?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::Sequence(items)) => items.push(node),
            Some(Content::Mapping(entries, next)) => {
                if let Some((key, line)) = next.take() {
                    // Nothing has no place of its own.
                    let line_of = |node: &Node| if node.is_null() { line } else { node.line };
                    let node = Node { line: line_of(&node), ..node };
                    match entries.iter_mut().find(|entry| entry.key == key) {
                        // Neither counts.
                        Some(twice) => twice.node.value = Value::Scalar(nothing()),
                        None => entries.push(Entry { key, line, node }),
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, more: usize) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > MAX_NODES { Err(Problem::TooLarge("10,000 values")) } else { Ok(()) }
    }

    fn count_bytes(&mut self, more: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > MAX_BYTES { Err(Problem::TooLarge("4 MiB of text")) } else { Ok(()) }
    }

    /// The path of the value that follows.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match &open.content {
            Content::Sequence(items) => format!("{path}[{}]", items.len()),
            Content::Mapping(_, Some((key, _))) => join(&path, key),
            Content::Mapping(_, None) => path,
        })
    }
}

/// In place of what is wrong: it sets nothing, and is not wrong in another way, too.
fn nothing() -> Scalar {
    Scalar::plain(Substituted { has_variable: true, ..Substituted::default() })
}

/// The path of a key below another.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn core_name(tag: &Tag) -> Result<&str, Problem> {
    if tag.is_yaml_core_schema() {
        Ok(&tag.suffix)
    } else {
        Err(Problem::Value("expected no tag, or one of YAML itself".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Node, String> {
        let lookup = |name: &str| (name == "LIST").then(|| "[1, 2]\nother: 3".to_owned());
        let (root, findings) = parse(text, &lookup).map_err(|it| it.to_string())?;
        let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
        if lines.is_empty() { Ok(root.unwrap()) } else { Err(lines.join("\n")) }
    }

    #[test]
    fn values_have_their_lines_and_types() {
        let root = read("# comment\na:\n  b: [1, \"2\"]\nc:\n").unwrap();
        let list = root.at("a.b").unwrap();
        assert_eq!((list.line, root.get("c").unwrap().is_null()), (3, true));
        let kinds: Vec<_> = list.items().iter().map(|item| item.scalar().unwrap().kind).collect();
        assert_eq!(kinds, [Kind::Integer, Kind::Text]);
        assert_eq!(root.entries()[1].line, 4);
    }

    #[test]
    fn variables_are_scalars_whatever_they_contain() {
        let root = read("a: ${LIST}\n${LIST}: 1\nb: ${NONE}\nc: \"${NONE}\"\n").unwrap();
        assert_eq!(root.get("a").unwrap().text().as_deref(), Some("[1, 2]\nother: 3"));
        assert_eq!(root.get("${LIST}").unwrap().text().as_deref(), Some("1"));
        assert!(root.get("b").unwrap().is_null());
        assert_eq!(root.get("c").unwrap().text().as_deref(), Some(""));
    }

    #[test]
    fn aliases_are_copies_and_bounded() {
        let root = read("a: &x {b: 1}\nc: *x\n").unwrap();
        assert_eq!(root.at("c.b").unwrap().text().as_deref(), Some("1"));
        let mut bomb = "a0: &a0 [x]\n".to_owned();
        for level in 1..40 {
            let before = level - 1;
            bomb += &format!("a{level}: &a{level} [*a{before}, *a{before}, *a{before}]\n");
        }
        assert!(read(&bomb).unwrap_err().ends_with("expected at most 10,000 values"));
        let text = "x".repeat(900_000);
        let large = format!("a: &a \"{text}\"\nb: [*a, *a, *a, *a, *a]\n");
        assert!(read(&large).unwrap_err().ends_with("4 MiB of text"));
        assert!(read(&format!("? {text}\n: 1\n")).unwrap_err().ends_with("of a key"));
        let long = |_: &str| Some("x".repeat(100_000));
        let referred = format!("a: {}\n", "${A}".repeat(100_000));
        assert!(parse(&referred, &long).unwrap_err().to_string().ends_with("4 MiB of text"));
        let deep = format!("a: {}", "[".repeat(100));
        assert!(read(&deep).unwrap_err().ends_with("64 levels"));
    }

    #[test]
    fn errors_have_lines_and_keys() {
        for (text, expected) in [
            ("a: 1\nb: {a: 1, a: 2}\na: 3\n", "2: b.a: duplicate key\n3: a: duplicate key"),
            ("a:\n- b: ${1}\n", "2: a[0].b: invalid reference ${1}: expected"),
            ("a: 1\n---\nb: 2\n", "expected one document"),
            ("? [a]\n: 1\n", "a key must be a scalar"),
            ("a: !mine 1\n", "1: invalid value: expected no tag"),
            ("a: !!int x\n", "1: invalid value: expected a value of the tag !!int"),
            ("a: [1\n", ": invalid YAML: "),
            ("a: 1\n  b: 2\n", "2: invalid YAML: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-c:\\-\\[\\]{}&*!#|>?'\" \n$\\t0-9,]{0,80}") {
            let _ = parse(&text, &|_| None);
        }
    }
}
