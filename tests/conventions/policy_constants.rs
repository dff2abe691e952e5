//! The constants of the default policies: all are in one table with their sources, and none is hidden in an
//! expression. Their kinds of remediation are those that authors and automation find listed.
//!
//! Must not depend on what they mean.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::repository::{files, read};

const TABLE: &str = "wasm-rules/CONSTANTS.md";

/// Lists levers and remediations for authors.
const LEVERS: &str = "wasm-rules/templates/LEVERS.md";

/// Files of the SDK and of the specifications that decide something.
const SHARED: [&str; 11] = [
    "wasm-rules/sdk/rust/src/gpu.rs",
    "wasm-rules/sdk/rust/src/memory.rs",
    "wasm-rules/sdk/rust/src/saving.rs",
    "wasm-rules/specs/src/fault.rs",
    "wasm-rules/specs/src/hang.rs",
    "wasm-rules/specs/src/hardware.rs",
    "wasm-rules/specs/src/link.rs",
    "wasm-rules/specs/src/quiet.rs",
    "wasm-rules/specs/src/straggler.rs",
    "wasm-rules/specs/src/throttle.rs",
    "wasm-rules/specs/src/unit.rs",
];

/// Constants that are units of time.
const CONVERSIONS: [&str; 3] = ["NANOS_PER_DAY", "SECONDS_PER_HOUR", "SECONDS_PER_MINUTE"];

/// The code of the policies without their tests, by the name of the file in the table.
fn sources() -> impl Iterator<Item = (String, String)> {
    let policies = files("wasm-rules/policies").into_iter();
    let policies = policies.filter(|path| path.ends_with(".rs") && path.contains("/src/"));
    policies.chain(SHARED.map(str::to_owned)).map(|path| {
        let code = read(&path).split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        (path.trim_start_matches("wasm-rules/").replace("/src/", "/"), code)
    })
}

/// Numbers and structures of numbers, by file and name.
fn constants() -> BTreeMap<(String, String), String> {
    let constant = r"(?m)^(?:pub(?:\(crate\))? )?const ([A-Z_0-9]+): ([^=]+?) =\s+([^;]+);";
    let constant = Regex::new(constant).unwrap();
    let number = Regex::new(r"^[\[(\-\s]*[0-9]").unwrap();
    let mut found = BTreeMap::new();
    for (file, code) in sources() {
        for parts in constant.captures_iter(&code) {
            let value = parts[3].split_whitespace().collect::<Vec<_>>().join(" ");
            let decides = number.is_match(&value) || &parts[2] == "Profile";
            if decides && !CONVERSIONS.contains(&&parts[1]) {
                found.insert((file.clone(), parts[1].to_owned()), value);
            }
        }
    }
    found
}

#[test]
fn constants_of_policies_are_in_one_table_with_their_sources() {
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
    let found = constants();
    assert!(found.len() > 150, "only {} constants found", found.len());
    for (constant, value) in &found {
        let row = listed.get(constant);
        assert_eq!(row, Some(value), "{constant:?} in {TABLE}");
    }
    let stale: Vec<_> = listed.keys().filter(|constant| !found.contains_key(*constant)).collect();
    assert!(stale.is_empty(), "{TABLE} lists {stale:?}, which the policies lack");
}

/// Confidences and shares: what is left in expressions are ends of ranges and halves.
#[test]
fn expressions_of_policies_hide_no_constant() {
    let literal = Regex::new(r"(?:^|[^\w.])([0-9][0-9_]*\.[0-9]+)").unwrap();
    let declaration = Regex::new(r"^(?:pub(?:\(crate\))? )?const ").unwrap();
    let other = Regex::new(r"^\s*//|: number = ").unwrap();
    for (file, code) in sources().filter(|(file, _)| file.starts_with("policies/")) {
        let mut in_constant = false;
        for line in code.lines() {
            in_constant |= declaration.is_match(line);
            if !in_constant && !other.is_match(line) && !line.contains('"') {
                let numbers = literal.captures_iter(line).map(|parts| parts[1].to_owned());
                let hidden: Vec<_> = numbers
                    .filter(|number| !["0.0", "1.0", "0.5", "16.0", "0.01"].contains(&&**number))
                    .collect();
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
