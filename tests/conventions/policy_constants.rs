//! The constants of the default policies, the defaults of their settings, and what the host decides about
//! recommendations: a page lists all with their comments, and no number is hidden in an expression. Their
//! kinds of remediation are those that authors and automation find listed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::{env, fs};

use regex::Regex;

use crate::repository::{files, read, root};

const PAGE: &str = "wasm-rules/CONSTANTS.md";

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
const HOST: [&str; 8] = [
    "collector/meter/src/contradiction.rs",
    "collector/meter/src/memory_pool.rs",
    "collector/savings/src/coverage.rs",
    "collector/savings/src/waterfall.rs",
    "collector/engine/src/policies/result.rs",
    "collector/report/src/policies/uncovered/decisive.rs",
    "collector/report/src/policies/uncovered/left.rs",
    "collector/report/src/policies/uncovered/mod.rs",
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

/// The code of the policies, and of the diagnoses and the SDK that they use.
fn sources() -> impl Iterator<Item = (String, String)> {
    let own = ["wasm-rules/policies", "wasm-rules/diagnoses"].into_iter().flat_map(files);
    let own = own.filter(|path| path.ends_with(".rs") && path.contains("/src/"));
    code(own.chain(SDK.map(str::to_owned)))
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A constant, or a setting with its default.
struct Constant {
    name: String,
    value: String,
    meaning: String,
}

/// The comment before a line, without its marks.
const COMMENT: &str = r"((?:^[ \t]*///[^\n]*\n)*)(?:^[ \t]*#\[[^\n]*\n)*";

fn found(declaration: &str, code: &str) -> Vec<Constant> {
    let declaration = Regex::new(&format!("(?m){COMMENT}{declaration}")).unwrap();
    let constant = |parts: regex::Captures<'_>| Constant {
        name: parts[2].to_owned(),
        value: joined(&parts[3]),
        meaning: joined(&parts[1].replace("///", "")),
    };
    declaration.captures_iter(code).map(constant).collect()
}

/// Numbers and structures of numbers of a file.
fn constants(code: &str) -> Vec<Constant> {
    let number = Regex::new(r"^(?:Nanos::from_secs|Profile )?[\[(\-\s{]*(?:[0-9]|\w+: )").unwrap();
    let constant = r"^(?:pub(?:\(crate\))? )?const ([A-Z_0-9]+): [^=]+? =\s+([^;]+);";
    let is_number = |constant: &Constant| {
        number.is_match(&constant.value) && !CONVERSIONS.contains(&&*constant.name)
    };
    found(constant, code).into_iter().filter(is_number).collect()
}

/// The settings of a file, which a user can change.
fn settings(code: &str) -> Vec<Constant> {
    let block = Regex::new(r"(?s)settings! \{\n(.*?)\n\}").unwrap();
    let setting = r"^    ([a-z_]+): (?:number|numbers|text|flag) = (.+?)(?: in | of |;)";
    block.captures_iter(code).flat_map(|block| found(setting, &block[1])).collect()
}

/// The page of all constants, as the code has them.
fn page() -> String {
    let mut page = String::from(
        "# Constants\n\n\
         Generated from the comments in the code by `make generate`. Every constant by which the default policies, \
         and the host about their recommendations, decide. A description that names no source is an \
         assumption.\n",
    );
    for (file, code) in sources().chain(code(HOST.iter().map(|path| (*path).to_owned()))) {
        let kinds = [("setting, default", settings(&code)), ("constant", constants(&code))];
        if kinds.iter().all(|(_, found)| found.is_empty()) {
            continue;
        }
        writeln!(page, "\n## `{file}`").unwrap();
        for (kind, found) in kinds.iter().filter(|(_, found)| !found.is_empty()) {
            writeln!(page, "\n| {kind} | value | meaning |\n|---|---|---|").unwrap();
            for Constant { name, value, meaning } in found {
                assert!(!meaning.is_empty(), "{file}: {name} lacks a comment of its own");
                writeln!(page, "| `{name}` | {value} | {meaning} |").unwrap();
            }
        }
    }
    page
}

#[test]
fn page_of_constants_is_that_of_the_code() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert!(rows > 200, "only {rows} constants found");
    if env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(root().join(PAGE), &page).unwrap();
    }
    assert!(read(PAGE) == page, "{PAGE} is not what the code gives; run make generate");
}

/// Confidences and shares: what is left in expressions are ends of ranges, and halves.
#[test]
fn expressions_of_policies_hide_no_constant() {
    let literal = Regex::new(r"(?:^|[^\w.])([0-9][0-9_]*\.[0-9]+)").unwrap();
    let declaration = Regex::new(r"^(?:pub(?:\(crate\))? )?const ").unwrap();
    let other = Regex::new(r"^\s*//|: number = ").unwrap();
    for (file, code) in sources() {
        let mut in_constant = false;
        for line in code.lines() {
            in_constant |= declaration.is_match(line);
            if !in_constant && !other.is_match(line) && !line.contains('"') {
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
