//! The constants of the default policies, the defaults of their settings, and what the host decides about
//! recommendations: all are in one table with their sources, and no number is hidden in an expression. Their
//! kinds of remediation are those that authors and automation find listed.
//!
//! Must not depend on what they mean.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::repository::{files, read};

const TABLE: &str = "wasm-rules/CONSTANTS.md";

/// Lists levers and remediations for authors.
const LEVERS: &str = "wasm-rules/templates/LEVERS.md";

/// Files of the SDK that decide something.
const SDK: [&str; 4] = [
    "wasm-rules/sdk/rust/src/gpu.rs",
    "wasm-rules/sdk/rust/src/memory.rs",
    "wasm-rules/sdk/rust/src/saving.rs",
    "wasm-rules/sdk/rust/src/thresholds.rs",
];

/// Files of the host that decide about recommendations.
const HOST: [&str; 7] = [
    "collector/meter/src/contradiction.rs",
    "collector/meter/src/memory_pool.rs",
    "collector/meter/src/savings/waterfall.rs",
    "collector/sidecar/src/policies/result.rs",
    "collector/sidecar/src/report/policies/uncovered/decisive.rs",
    "collector/sidecar/src/report/policies/uncovered/left.rs",
    "collector/sidecar/src/report/policies/uncovered/mod.rs",
];

/// Constants that are units.
const CONVERSIONS: [&str; 4] =
    ["NANOS_PER_DAY", "FULL_PPM", "SECONDS_PER_HOUR", "SECONDS_PER_MINUTE"];

/// The code of files without their tests, by the name of the file in the table.
fn code(paths: impl Iterator<Item = String>) -> impl Iterator<Item = (String, String)> {
    paths.map(|path| {
        let code = read(&path).split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        (path.trim_start_matches("wasm-rules/").replace("/src/", "/"), code)
    })
}

/// The code of the policies, and of the specifications and the SDK that they use.
fn sources() -> impl Iterator<Item = (String, String)> {
    let own = ["wasm-rules/policies", "wasm-rules/specs"].into_iter().flat_map(files);
    let own = own.filter(|path| path.ends_with(".rs") && path.contains("/src/"));
    code(own.chain(SDK.map(str::to_owned)))
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Numbers and structures of numbers, by file and name.
fn constants() -> BTreeMap<(String, String), String> {
    let constant = r"(?m)^(?:pub(?:\(crate\))? )?const ([A-Z_0-9]+): ([^=]+?) =\s+([^;]+);";
    let constant = Regex::new(constant).unwrap();
    let number = Regex::new(r"^(?:Nanos::from_secs)?[\[(\-\s]*[0-9]").unwrap();
    let mut found = BTreeMap::new();
    for (file, code) in sources().chain(code(HOST.iter().map(|path| (*path).to_owned()))) {
        for parts in constant.captures_iter(&code) {
            let value = joined(&parts[3]);
            let decides = number.is_match(&value) || &parts[2] == "Profile";
            if decides && !CONVERSIONS.contains(&&parts[1]) {
                found.insert((file.clone(), parts[1].to_owned()), value);
            }
        }
    }
    found
}

/// The defaults of settings, by file and name.
fn defaults() -> BTreeMap<(String, String), String> {
    let block = Regex::new(r"(?s)settings! \{\n(.*?)\n\}").unwrap();
    let setting = r"(?m)^    ([a-z_]+): (?:number|numbers|text|flag) = (.+?)(?: in | of |;)";
    let setting = Regex::new(setting).unwrap();
    let mut found = BTreeMap::new();
    for (file, code) in sources() {
        for block in block.captures_iter(&code) {
            for parts in setting.captures_iter(&block[1]) {
                found.insert((file.clone(), parts[1].to_owned()), parts[2].to_owned());
            }
        }
    }
    found
}

/// The values of the table by file and name. A name that is not an identifier is an expression of the file.
fn listed() -> BTreeMap<(String, String), String> {
    let table = read(TABLE);
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut listed = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [file, name, value, meaning, source] = cells[..] else { panic!("{TABLE}: {row}") };
        assert!(!meaning.is_empty() && !source.is_empty(), "{TABLE}: {row}");
        let key = [file, name].map(|cell| cell.trim_matches('`').to_owned());
        listed.insert(key.into(), value.to_owned());
    }
    listed
}

fn is_expression(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[test]
fn constants_and_defaults_are_in_one_table_with_their_sources() {
    let listed = listed();
    let (mut found, defaults) = (constants(), defaults());
    assert!(found.len() > 150, "only {} constants found", found.len());
    assert!(defaults.len() > 25, "only {} defaults of settings found", defaults.len());
    found.extend(defaults);
    for (constant, value) in &found {
        let row = listed.get(constant);
        assert_eq!(row, Some(value), "{constant:?} in {TABLE}");
    }
    let code: BTreeMap<_, _> = sources().map(|(file, code)| (file, joined(&code))).collect();
    let is_stale = |constant: &&(String, String)| {
        let (file, name) = constant;
        if is_expression(name) {
            !code.get(file).is_some_and(|code| code.contains(name))
        } else {
            !found.contains_key(*constant)
        }
    };
    let stale: Vec<_> = listed.keys().filter(is_stale).collect();
    assert!(stale.is_empty(), "{TABLE} lists {stale:?}, which the code lacks");
}

/// Confidences and shares: what is left in expressions are ends of ranges, halves, and what the table lists.
#[test]
fn expressions_of_policies_hide_no_constant() {
    let literal = Regex::new(r"(?:^|[^\w.])([0-9][0-9_]*\.[0-9]+)").unwrap();
    let declaration = Regex::new(r"^(?:pub(?:\(crate\))? )?const ").unwrap();
    let other = Regex::new(r"^\s*//|: number = ").unwrap();
    let listed = listed();
    for (file, code) in sources() {
        let names = listed.keys().filter(|(other, name)| *other == file && is_expression(name));
        let names: Vec<_> = names.map(|(_, name)| name).collect();
        let mut in_constant = false;
        for line in code.lines() {
            in_constant |= declaration.is_match(line);
            let is_listed = names.iter().any(|name| line.contains(*name));
            if !in_constant && !is_listed && !other.is_match(line) && !line.contains('"') {
                let numbers = literal.captures_iter(line).map(|parts| parts[1].to_owned());
                let hidden: Vec<_> =
                    numbers.filter(|number| !["0.0", "1.0", "0.5"].contains(&&**number)).collect();
                assert!(hidden.is_empty(), "{file}: name {hidden:?} as a constant: {line}");
            }
            in_constant &= !line.trim_end().ends_with(';');
        }
    }
}

#[test]
fn remediations_of_policies_are_listed() {
    let row = Regex::new(r"(?m)^\| `([a-z0-9]+\.[a-z0-9-]+)` \|").unwrap();
    let table = read(LEVERS);
    let listed: BTreeSet<_> = row.captures_iter(&table).map(|parts| parts[1].to_owned()).collect();
    let literal = Regex::new(r#""([a-z0-9]+\.[a-z0-9-]+)""#).unwrap();
    let call = Regex::new(r#"(?:Remediation::new|to_place|after_idle)\(\s*"([^"]+)""#).unwrap();
    let (mut used, mut named) = (BTreeSet::new(), BTreeSet::new());
    for (_, code) in sources() {
        used.extend(call.captures_iter(&code).map(|parts| parts[1].to_owned()));
        named.extend(literal.captures_iter(&code).map(|parts| parts[1].to_owned()));
    }
    assert!(used.len() > 10, "only {used:?} found");
    assert!(used.is_subset(&listed), "{LEVERS} lacks {:?}", used.difference(&listed));
    assert!(listed.is_subset(&named), "no policy has {:?}", listed.difference(&named));
}
