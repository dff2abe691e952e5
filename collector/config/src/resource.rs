//! Attributes of the resource, and propagators: both are lists in their variables.

use crate::exporter::encoded;
use crate::node::{Node, Value};
use crate::reader::Reader;

pub(crate) const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
pub(crate) const PROPAGATORS: &str = "OTEL_PROPAGATORS";

/// Propagators that exist here.
const KNOWN: [&str; 2] = ["tracecontext", "baggage"];

pub(crate) fn read(reader: &mut Reader, root: &Node) {
    attributes(reader, root);
    propagators(reader, root);
}

fn attributes(reader: &mut Reader, root: &Node) {
    let Some(resource) = root.get("resource") else { return };
    let mut list: Vec<String> = Vec::new();
    if let Some(node) = resource.get("attributes_list") {
        reader.take(node);
        list.extend(node.text());
    }
    for attribute in resource.get("attributes").map(Node::items).unwrap_or_default() {
        let (name, value) = (attribute.get("name").and_then(Node::text), attribute.get("value"));
        let (Some(name), Some(value)) = (name, value) else { continue };
        // A list has no form in the variable.
        if matches!(value.value, Value::Scalar(_)) {
            reader.take(attribute);
            list.extend(value.text().map(|text| format!("{name}={}", encoded(&text))));
        }
    }
    if !list.is_empty() {
        let key = "resource.attributes";
        reader.set(ATTRIBUTES, list.join(","), key, resource.line);
    }
}

/// Without the key, those of a process without a file: contexts that are given count.
fn propagators(reader: &mut Reader, root: &Node) {
    let Some(node) = root.get("propagator") else { return };
    let mut names: Vec<String> = Vec::new();
    for item in node.get("composite").map(Node::items).unwrap_or_default() {
        let entries = item.entries().iter().map(|entry| entry.key.as_str());
        let known: Vec<_> = entries.filter(|name| KNOWN.contains(name)).collect();
        if !known.is_empty() {
            reader.take(item);
        }
        names.extend(known.into_iter().map(ToOwned::to_owned));
    }
    if let Some(list) = node.get("composite_list") {
        let text = list.text().unwrap_or_default();
        let given: Vec<_> = text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
        if given.iter().all(|name| KNOWN.contains(name) || *name == "none") {
            reader.take(list);
        }
        names.extend(given.into_iter().filter(|it| KNOWN.contains(it)).map(ToOwned::to_owned));
    }
    let given = KNOWN.into_iter().filter(|known| names.iter().any(|name| name == known));
    let given: Vec<_> = given.collect();
    let value = if given.is_empty() { "none".to_owned() } else { given.join(",") };
    reader.set(PROPAGATORS, value, "propagator", node.line);
}
