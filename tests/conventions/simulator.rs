//! The simulator of fleets shares no code with the product, so that it can judge it.
//!
//! It reads the tables of models and prices, which are facts, with code of its own.

use regex::Regex;

use crate::repository::{files, read};

const SIMULATOR: &str = "tests/fleets";

/// The tables that it may include.
const TABLES: &str = "collector/meter/data/";

#[test]
fn simulator_depends_on_no_crate_of_the_product() {
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let manifest: toml::Table = read(&format!("{SIMULATOR}/Cargo.toml")).parse().unwrap();
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut count = 0;
    for (name, dependency) in
        kinds.iter().filter_map(|kind| manifest.get(*kind)?.as_table()).flatten()
    {
        let inherited = dependency.get("workspace").is_some();
        let source =
            if inherited { &workspace["workspace"]["dependencies"][name] } else { dependency };
        assert!(source.get("path").is_none(), "{SIMULATOR} depends on {name}");
        count += 1;
    }
    assert!(count > 0, "{SIMULATOR}: no dependencies found");
    assert!(!manifest.contains_key("target"), "{SIMULATOR}: check these dependencies too");
}

#[test]
fn simulator_includes_only_tables() {
    let include = Regex::new(r#"(?:include\w*!\(|#\[path = )\s*"([^"]+)""#).unwrap();
    let mut included = Vec::new();
    for file in files(SIMULATOR).iter().filter(|file| file.ends_with(".rs")) {
        let code = read(file);
        included.extend(include.captures_iter(&code).map(|parts| parts[1].to_owned()));
    }
    assert!(!included.is_empty(), "{SIMULATOR}: no table found");
    let others: Vec<_> = included.iter().filter(|path| !path.contains(TABLES)).collect();
    assert!(others.is_empty(), "{SIMULATOR} includes {others:?}");
}
