//! The constants of telemetry names are generated from the registry, and sources use no other names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::{env, fs};

use regex::Regex;

use crate::registry_model::{AttributeType, Registry};
use crate::repository::{files, read, root};

pub(crate) const FILE: &str = "collector/otlp/src/names.rs";

/// The crates that send telemetry.
const SENDERS: [&str; 6] = [
    "collector/cli/src",
    "collector/engine/src",
    "collector/environment/src",
    "collector/otlp/src",
    "collector/receiver/src",
    "collector/sidecar/src",
];

/// Attributes of resources, which users set, and of GPUs in windows: no metric, span or event refers to them.
pub(crate) const OF_RESOURCES: [&str; 13] = [
    "phasemeter.role",
    "phasemeter.workload",
    "phasemeter.interruptible",
    "phasemeter.framework",
    "phasemeter.precision",
    "phasemeter.team",
    "phasemeter.project",
    "phasemeter.user",
    "phasemeter.gpu.holders",
    "phasemeter.gpu.never_touched_by",
    "phasemeter.gpu.mig.mode",
    "phasemeter.gpu.mig.profiles",
    "phasemeter.gpu.nvlink.peers",
];

const MAX_WIDTH: usize = 100;

/// The lines of a source before its tests.
fn without_tests(path: &str) -> String {
    let text = read(path);
    text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

fn sources(directory: &str) -> Vec<String> {
    let is_source = |path: &String| {
        // Tests of a module in files of their own.
        let is_test = path.contains("/tests") || path.contains("/simulation/");
        path.ends_with(".rs") && path.contains("/src/") && !is_test && path != FILE
    };
    files(directory).into_iter().filter(is_source).collect()
}

#[test]
fn registry_constants_are_current() {
    let constants = constants(&Registry::read(&root()));
    let path = root().join(FILE);
    if env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(&path, &constants).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == constants, "{FILE} is not what the registry gives; run make generate");
}

/// A name that is spelled out differs from the registry sooner or later. A part may be computed, such as
/// an account: then `registry_and_sources_have_the_same_names` checks it.
#[test]
fn registry_constants_are_the_only_names_in_sources() {
    let literal = Regex::new(r#""(phasemeter\.[a-z0-9_.]+)""#).unwrap();
    let mut problems = Vec::new();
    for directory in SENDERS {
        for path in sources(directory) {
            let text = without_tests(&path);
            let found = literal.captures_iter(&text).map(|found| found[1].to_owned());
            let names = found.filter(|name| !name.ends_with('.'));
            problems.extend(names.map(|name| format!("{path}: \"{name}\"")));
        }
    }
    for path in sources("collector").into_iter().chain(sources("rules")) {
        if !SENDERS.iter().any(|directory| path.starts_with(directory)) {
            let text = without_tests(&path);
            let found = literal.captures_iter(&text).map(|found| found[1].to_owned());
            let names = found.filter(|name| !OF_RESOURCES.contains(&name.as_str()));
            problems.extend(names.map(|name| format!("{path}: \"{name}\"")));
        }
    }
    assert!(problems.is_empty(), "use phasemeter_otlp::names:\n{}", problems.join("\n"));
}

/// The constants that sources refer to, with their modules.
fn referred() -> BTreeSet<(String, String)> {
    let senders = SENDERS.iter().flat_map(|directory| sources(directory));
    let sources: String = senders.map(|path| without_tests(&path)).collect();
    let reference = Regex::new(r"\b(attribute|metric|event)::(\w+)").unwrap();
    let found = reference.captures_iter(&sources);
    found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// The names that sources refer to by a constant: others have none.
pub(crate) fn used() -> BTreeSet<String> {
    let constant = Regex::new(r#"pub const \w+: &str =\s+"(phasemeter\.[^"]+)";"#).unwrap();
    constant.captures_iter(&read(FILE)).map(|found| found[1].to_owned()).collect()
}

/// The generated file: the constants that sources refer to.
fn constants(registry: &Registry) -> String {
    let mut text =
        "//! Names of telemetry. Generated from otel-config/registry by `make generate`.\n"
            .to_owned();
    let manifest = read("otel-config/registry/manifest.yaml");
    let schema = manifest.lines().find_map(|line| line.strip_prefix("schema_url: ")).unwrap();
    let schema = format!("pub const SCHEMA_URL: &str = {schema:?};");
    write!(text, "\n/// The schema of what is Phasemeter's.\n{schema}\n").unwrap();
    let attributes = registry.attributes.values();
    let attributes = attributes.map(|it| {
        let is_prefix =
            matches!(&it.kind, AttributeType::Name(kind) if kind.starts_with("template"));
        let prefix = if is_prefix { "The beginning of the key. " } else { "" };
        (it.key.as_str(), format!("{prefix}{}", it.brief))
    });
    let metrics = registry.metrics.values().map(|it| (it.name.as_str(), it.brief.clone()));
    let events = registry.events.values().map(|it| (it.name.as_str(), it.brief.clone()));
    let referred = referred();
    module("attribute", "Keys of attributes.", attributes, &referred, &mut text);
    module("metric", "Names of metrics.", metrics, &referred, &mut text);
    module("event", "Names of events.", events, &referred, &mut text);
    text
}

fn module<'a>(
    module: &str,
    brief: &str,
    items: impl Iterator<Item = (&'a str, String)>,
    referred: &BTreeSet<(String, String)>,
    text: &mut String,
) {
    write!(text, "\n/// {brief}\npub mod {module} {{\n").unwrap();
    for (name, brief) in items {
        let Some(own) = name.strip_prefix("phasemeter.") else { continue };
        let constant = own.to_uppercase().replace('.', "_");
        if !referred.contains(&(module.to_owned(), constant.clone())) {
            continue;
        }
        let mut line = String::new();
        for word in brief.split_whitespace() {
            if !line.is_empty() && 8 + line.len() + 1 + word.len() > MAX_WIDTH {
                writeln!(text, "    /// {line}").unwrap();
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        writeln!(text, "    /// {line}").unwrap();
        let declared = format!("    pub const {constant}: &str =");
        let value = format!("\"{name}\";");
        let separator =
            if declared.len() + 1 + value.len() > MAX_WIDTH { "\n        " } else { " " };
        writeln!(text, "{declared}{separator}{value}").unwrap();
    }
    text.push_str("}\n");
}
