//! The sampler, as far as a name and a ratio describe it.

use crate::node::Node;
use crate::reader::Reader;

pub(crate) const KEY: &str = "tracer_provider.sampler";
pub(crate) const VARIABLES: [&str; 2] = ["OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"];

/// What a parent decides, by default.
const DELEGATES: [(&str, &str); 4] = [
    ("remote_parent_sampled", "always_on"),
    ("remote_parent_not_sampled", "always_off"),
    ("local_parent_sampled", "always_on"),
    ("local_parent_not_sampled", "always_off"),
];

pub(crate) fn read(reader: &mut Reader, root: &Node) {
    let Some(sampler) = root.at(KEY) else { return };
    let [variable, argument] = VARIABLES;
    let set = |reader: &mut Reader, name: String, ratio: Option<String>| {
        reader.set(variable, name, KEY, sampler.line);
        if let Some(ratio) = ratio {
            reader.set(argument, ratio, KEY, sampler.line);
        }
    };
    let Some(parent) = sampler.get("parent_based") else {
        if let Some((name, ratio)) = root_sampler(sampler) {
            reader.take(sampler);
            set(reader, name.to_owned(), ratio);
        }
        return;
    };
    let decided = parent.get("root").map_or(Some(("always_on", None)), root_sampler);
    let Some((name, ratio)) = decided else { return };
    if let Some(node) = parent.get("root") {
        reader.take(node);
    }
    for (key, default) in DELEGATES {
        if let Some(node) = parent.get(key).filter(|node| is_only(node, default)) {
            reader.take(node);
        }
    }
    if parent.entries().is_empty() {
        reader.take(parent);
    }
    set(reader, format!("parentbased_{name}"), ratio);
}

/// The name of a sampler in its variable, and its ratio.
fn root_sampler(node: &Node) -> Option<(&'static str, Option<String>)> {
    for name in ["always_on", "always_off"] {
        if is_only(node, name) {
            return Some((name, None));
        }
    }
    let by_ratio = node.get("trace_id_ratio_based").filter(|_| node.entries().len() == 1)?;
    Some(("traceidratio", by_ratio.get("ratio").and_then(Node::text)))
}

fn is_only(node: &Node, name: &str) -> bool {
    matches!(node.entries(), [entry] if entry.key == name)
}
