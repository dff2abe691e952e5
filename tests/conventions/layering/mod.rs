//! Imports point one way: between the crates, and between the files of each crate.

mod boundaries;
mod circles;
mod modules;
mod tokens;

use std::collections::BTreeMap;

use self::circles::{Edge, circles, edges};
use self::modules::modules;
use crate::repository::{files, read, root};

/// The directories with crates that are checked.
const CRATES: [&str; 4] = ["collector", "rules", "wasm-rules", "tests"];

/// From the core to the binary: each crate may depend on those of lower layers only.
const LAYERS: [(&str, u8); 28] = [
    ("phasemeter-meter", 0),
    ("phasemeter-nvml-calls", 0),
    ("phasemeter-files", 0),
    ("phasemeter-outbox", 0),
    ("phasemeter-process", 0),
    ("phasemeter-price-import", 1),
    ("phasemeter-savings", 1),
    ("phasemeter-sources", 1),
    ("phasemeter-terminal", 1),
    ("phasemeter-alerts", 2),
    ("phasemeter-attribution", 2),
    ("phasemeter-bill", 2),
    ("phasemeter-holders", 2),
    ("phasemeter-logs", 2),
    ("phasemeter-otlp", 2),
    ("phasemeter-rules", 2),
    ("phasemeter-plan", 2),
    ("phasemeter-work", 2),
    ("phasemeter-environment", 3),
    ("phasemeter-receiver", 3),
    ("phasemeter-engine", 4),
    ("phasemeter-claims", 5),
    ("phasemeter-cli", 5),
    ("phasemeter-journal", 5),
    ("phasemeter-report", 5),
    ("phasemeter-doctor", 6),
    ("phasemeter-plan-report", 6),
    ("phasemeter", 7),
];

/// The edges between the files of the crate with this root.
fn edges_of(file: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<Edge> {
    edges(&modules(file, read))
}

/// All files of the crates.
fn all_files() -> Vec<String> {
    CRATES.into_iter().flat_map(files).collect()
}

#[test]
fn files_of_a_crate_import_one_way() {
    let all = all_files();
    let source = |path: &str| all.iter().any(|file| file == path).then(|| read(path));
    let roots =
        all.iter().filter(|path| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    let mut problems = Vec::new();
    for path in roots {
        let edges = edges_of(path, &source);
        for circle in circles(&edges) {
            let lines: Vec<_> = circle.iter().map(ToString::to_string).collect();
            problems.push(lines.join("\n  "));
        }
    }
    assert!(problems.is_empty(), "circles of imports:\n  {}", problems.join("\n\n  "));
}

#[test]
fn crates_depend_on_lower_layers() {
    let layers = BTreeMap::from(LAYERS);
    let mut seen = 0;
    for path in files("").iter().filter(|path| path.ends_with("Cargo.toml")) {
        let manifest: toml::Table = read(path).parse().unwrap();
        let name = manifest.get("package").and_then(|package| package.get("name"));
        let Some(&layer) = name.and_then(|name| layers.get(name.as_str()?)) else { continue };
        seen += 1;
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        for dependency in dependencies.into_iter().flat_map(toml::Table::keys) {
            if let Some(&below) = layers.get(dependency.as_str()) {
                assert!(
                    below < layer,
                    "{path}: must not depend on {dependency}: same or higher layer"
                );
            }
        }
    }
    assert!(seen >= 3, "found {seen} crates below {}", root().display());
}

/// Files of an imaginary crate.
fn circles_in(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &str| {
        files.iter().find(|(file, _)| *file == path).map(|(_, text)| (*text).to_owned())
    };
    let found = circles(&edges_of("src/lib.rs", &read));
    found
        .iter()
        .map(|circle| circle.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        .collect()
}

#[test]
fn circles_are_found_through_groups_and_reexports() {
    let found = circles_in(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "use crate::{b::{self, B}, c::Other as C};\npub struct A(B);"),
        ("src/b/mod.rs", "mod inner;\npub use inner::B;"),
        ("src/b/inner.rs", "use super::super::a::A; pub struct B;"),
        ("src/c.rs", "pub struct Other;"),
    ]);
    assert_eq!(found, ["src/a.rs:2 uses B of src/b/inner.rs; src/b/inner.rs:1 uses A of src/a.rs"]);
}

#[test]
fn circles_are_found_through_qualified_paths() {
    let found = circles_in(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub fn f() { crate::b::g(); }"),
        ("src/b.rs", "use crate::a;\nfn g() {\n a::f() }"),
    ]);
    assert_eq!(found, ["src/a.rs:1 uses g of src/b.rs; src/b.rs:3 uses f of src/a.rs"]);
}

#[test]
fn reexports_and_tests_make_no_circle() {
    let found = circles_in(&[
        ("src/lib.rs", "mod m; pub use m::{A, Shared};"),
        ("src/m/mod.rs", "mod a; mod b;\npub use a::A;\npub struct Shared;"),
        ("src/m/a.rs", "use super::{b::B, Shared};\npub struct A(B, Shared);"),
        ("src/m/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use super::super::A; }\n"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn reexported_and_used_name_makes_a_circle() {
    let found = circles_in(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub use crate::b::B;\npub struct A;\nfn f(b: B) {}"),
        ("src/b.rs", "use crate::a::*;\npub struct B(A);"),
    ]);
    assert_eq!(found, ["src/a.rs:3 uses B of src/b.rs; src/b.rs:2 uses A of src/a.rs"]);
}
