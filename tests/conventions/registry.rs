//! The registry of telemetry is consistent with itself, with the sources, and with its reference page.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;

use regex::Regex;

use crate::constants::{self, OF_RESOURCES};
use crate::registry_model::{self as model, AttributeType, FILES, Level, Registry};
use crate::repository::{files, read, root};

const PAGE: &str = "docs/reference/telemetry.md";

#[test]
fn registry_is_consistent() {
    let registry = Registry::read(&root());
    let mut problems = registry.problems.clone();
    let metrics = registry.metrics.values().map(|it| &it.resolved);
    let spans = registry.spans.values().map(|it| &it.resolved);
    let events = registry.events.values().map(|it| &it.resolved);
    let used: BTreeSet<&str> = metrics
        .chain(spans)
        .chain(events)
        .flatten()
        .map(|(key, _)| key.as_str())
        .chain(OF_RESOURCES)
        .collect();
    for key in registry.attributes.keys().filter(|key| key.starts_with("phasemeter.")) {
        if !used.contains(key.as_str()) {
            problems.push(format!("{key}: unused attribute"));
        }
    }
    let instruments = ["counter", "gauge", "histogram", "updowncounter"];
    for metric in registry.metrics.values() {
        if !instruments.contains(&metric.instrument.as_str()) {
            problems.push(format!("{}: unknown instrument", metric.name));
        }
    }
    let emitted = registry.metrics.values().map(|it| (&it.name, &it.annotations));
    let emitted = emitted.chain(registry.spans.values().map(|it| (&it.kind, &it.annotations)));
    let emitted = emitted.chain(registry.events.values().map(|it| (&it.name, &it.annotations)));
    for (name, annotations) in emitted {
        let by = &annotations.phasemeter.emitted_by;
        let runs = ["audit", "run", "gateway", "internal", "environment"];
        if by.is_empty() || by.iter().any(|run| !runs.contains(&run.as_str())) {
            problems.push(format!("{name}: emitted_by is {by:?}"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Backends build fields and trees from names: one that has a value has no parts, and is of one thing.
#[test]
fn no_name_is_a_namespace_or_of_two_things() {
    let registry = Registry::read(&root());
    let attributes = registry.attributes.keys().cloned();
    let metrics = registry.metrics.values().map(|it| it.name.clone());
    let names = attributes.chain(metrics).chain(registry.events.values().map(|it| it.name.clone()));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("phasemeter.")).collect();
    names.sort();
    let problem = |(name, next): (&String, &String)| {
        let is_namespace = next.strip_prefix(name.as_str()).is_some_and(|it| it.starts_with('.'));
        (name == next || is_namespace).then(|| format!("{name}: {next}"))
    };
    let all = names.iter().flat_map(|name| names.iter().map(move |next| (name, next)));
    let twice = names.iter().zip(names.iter().skip(1)).filter(|(name, next)| name == next);
    let problems: Vec<_> =
        all.filter(|(name, next)| name != next).chain(twice).filter_map(problem).collect();
    assert!(problems.is_empty(), "{problems:?}");
}

/// Names of telemetry in the sources, and those in the registry.
#[test]
fn registry_and_sources_have_the_same_names() {
    let literal = Regex::new(r#""(phasemeter\.[a-z0-9_.]+)(?:\.?\{|")"#).unwrap();
    let sources: Vec<_> = files("collector")
        .into_iter()
        .chain(files("rules"))
        .filter(|path| path.ends_with(".rs") && path.contains("/src/") && path != constants::FILE)
        .collect();
    let text: String = sources.iter().map(|path| read(path)).collect();
    let referred = constants::used();
    let named: BTreeSet<&str> = literal
        .captures_iter(&text)
        .map(|found| found.get(1).unwrap().as_str().trim_end_matches('.'))
        .chain(referred.iter().map(String::as_str))
        .collect();
    assert!(named.len() > 40, "found {named:?}");
    let registry = Registry::read(&root());
    let defined = registry.attributes.keys().chain(registry.metrics.keys());
    let defined = defined.chain(registry.events.keys());
    let defined: BTreeSet<&str> =
        defined.map(String::as_str).filter(|name| name.starts_with("phasemeter.")).collect();
    // A name with a part that is computed, such as an account, is a prefix in the sources.
    let prefix_of = |name: &str, longer: &str| {
        longer.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    let unknown = named.iter().filter(|name| {
        !defined.contains(**name) && !defined.iter().any(|longer| prefix_of(name, longer))
    });
    let unknown: Vec<_> = unknown.collect();
    assert!(unknown.is_empty(), "in the sources, but not in the registry: {unknown:?}");
    let unsent = defined.iter().filter(|name| {
        !named.contains(**name) && !named.iter().any(|shorter| prefix_of(shorter, name))
    });
    let unsent: Vec<_> = unsent.collect();
    assert!(unsent.is_empty(), "in the registry, but not in the sources: {unsent:?}");
}

#[test]
fn registry_reference_page_is_current() {
    let page = page();
    let path = root().join(PAGE);
    if env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &page).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "{PAGE} is not what the registry gives; run make generate");
}

/// The reference page.
fn page() -> String {
    let registry = Registry::read(&root());
    let mut page = "# Telemetry reference\n\n\
        Generated from the [registry](../../otel-config/registry/README.md). An attribute in *italics* is \
        conditionally required or recommended; the others are on every point, span or event. \
        [Export OTLP](../otlp.md) describes how all of it is used.\n"
        .to_owned();
    for file in FILES {
        let own = model::read(&root(), &format!("otel-config/registry/{file}"));
        let metrics: Vec<_> = own.metrics.iter().map(|it| &registry.metrics[&it.name]).collect();
        if !metrics.is_empty() {
            let title = if file == "internal.yaml" { "Internal metrics" } else { "Metrics" };
            let has_sets = metrics.iter().any(|it| it.annotations.phasemeter.set.is_some());
            let (set, line) = if has_sets { (" set |", "---|") } else { ("", "") };
            page += &format!(
                "\n## {title}\n\n| metric | instrument | unit |{set} attributes | |\n|---|---|---|{line}---|---|\n"
            );
            for it in metrics {
                let (name, instrument, unit) = (&it.name, &it.instrument, &it.unit);
                let attributes = attributes(&it.resolved);
                let (brief, set) = (&it.brief, it.annotations.phasemeter.set.as_ref());
                let set = set.map(|set| format!(" `{set}` |")).unwrap_or_default();
                writeln!(
                    page,
                    "| `{name}` | {instrument} | `{unit}` |{set} {attributes} | {brief} |"
                )
                .unwrap();
            }
        }
        if !own.spans.is_empty() {
            page += "\n## Spans\n\n| span | attributes | |\n|---|---|---|\n";
            for it in own.spans.iter().map(|it| &registry.spans[&it.kind]) {
                let (name, attributes) = (&it.name.note, attributes(&it.resolved));
                writeln!(page, "| `{name}` | {attributes} | {} |", it.brief).unwrap();
            }
        }
        if !own.events.is_empty() {
            page += "\n## Events\n\n| event | attributes | |\n|---|---|---|\n";
            for it in own.events.iter().map(|it| &registry.events[&it.name]) {
                let attributes = attributes(&it.resolved);
                writeln!(page, "| `{}` | {attributes} | {} |", it.name, it.brief).unwrap();
            }
        }
        if !own.attributes.is_empty() {
            page += "\n## Attributes\n\n| attribute | type | |\n|---|---|---|\n";
            for it in &own.attributes {
                let kind = match &it.kind {
                    AttributeType::Name(name) => name.clone(),
                    AttributeType::Enum { members } => {
                        let value = |member: &model::Member| match member.value.as_str() {
                            "" => format!("empty ({})", member.brief),
                            value => format!("`{value}` ({})", member.brief),
                        };
                        members.iter().map(value).collect::<Vec<_>>().join(", ")
                    }
                };
                writeln!(page, "| `{}` | {kind} | {} |", it.key, it.brief).unwrap();
            }
        }
    }
    page
}

fn attributes(resolved: &[(String, Level)]) -> String {
    let each = resolved.iter().map(|(key, level)| match level {
        Level::Required => format!("`{key}`"),
        _ => format!("*`{key}`*"),
    });
    each.collect::<Vec<_>>().join(", ")
}
