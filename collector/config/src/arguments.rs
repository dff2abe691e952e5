//! Phasemeter's keys as options of the command line.

use crate::finding::{Finding, Problem};
use crate::keys::{SECTION, Shape, keys, shape};
use crate::node::{Node, Value};
use crate::options::Options;

/// An option that a file gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The option, without dashes.
    pub(crate) option: &'static str,
    /// Its values: each is one argument. `None`: without a value.
    pub(crate) values: Vec<Option<String>>,
}

/// The option of the level of the log, whose key is OpenTelemetry's.
pub(crate) const LOG_LEVEL: (&str, &str) = ("log_level", "log-level");

/// The options of a document, and values that they refuse.
pub(crate) fn read(root: &Node, options: &Options) -> (Vec<Given>, Vec<Finding>) {
    let (mut given, mut findings) = (Vec::new(), Vec::new());
    let (level, option) = LOG_LEVEL;
    if let Some(level) = root.get(level).and_then(Node::text) {
        // Each level has four degrees, and what is fatal is an error.
        let name = level.trim_end_matches(|c: char| c.is_ascii_digit()).replace("fatal", "error");
        // The schema refuses other names.
        if options.refusal(option, Some(&name)).is_none() {
            given.push(Given { option, values: vec![Some(name)] });
        }
    }
    for key in keys() {
        let at = root.at(SECTION).and_then(|it| it.get(key.section)?.get(key.name));
        let Some((node, arg)) = at.zip(options.argument(key.option)) else { continue };
        let (lines, mut values): (Vec<_>, Vec<_>) = values(node, shape(arg)).into_iter().unzip();
        let refused = options.refusals(key.option, &values);
        for (index, reason) in &refused {
            // Some reasons name what was given.
            let is_general = reason.starts_with("expected ");
            let reason = if is_general { reason } else { "expected another value" };
            let line = lines.get(*index).copied().unwrap_or(node.line);
            findings.push(Finding::new(line, key.path(), Problem::Value(reason.to_owned())));
        }
        for (index, _) in refused.iter().rev() {
            values.remove(*index);
        }
        if !values.is_empty() {
            given.push(Given { option: key.option, values });
        }
    }
    (given, findings)
}

/// The arguments that a value is, each with its line.
fn values(node: &Node, shape: Shape) -> Vec<(usize, Option<String>)> {
    let text = |node: &Node| node.text().map(|text| (node.line, Some(text)));
    let is = |word: &str| node.text().is_some_and(|text| text.eq_ignore_ascii_case(word));
    match (&node.value, shape) {
        (_, Shape::Switch | Shape::Optional) if is("true") => vec![(node.line, None)],
        (_, Shape::Switch) => Vec::new(),
        (_, Shape::Optional) if is("false") => Vec::new(),
        (Value::Scalar(_), _) => text(node).into_iter().collect(),
        (Value::Sequence(items), Shape::List | Shape::Pairs) => {
            items.iter().filter_map(text).collect()
        }
        (Value::Mapping(entries), Shape::Pairs) => {
            let pair = |(line, value): (usize, Option<String>), key: &str| {
                (line, value.map(|value| format!("{key}={value}")))
            };
            entries.iter().filter_map(|it| Some(pair(text(&it.node)?, &it.key))).collect()
        }
        _ => Vec::new(),
    }
}
