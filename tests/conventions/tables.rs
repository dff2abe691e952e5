//! Tables in pages that list what code defines have all of it, and nothing else.

use std::collections::BTreeSet;

use regex::Regex;

use crate::repository::{files, read};

/// The first cells of the table under this heading of a page, without code marks; one may have several names.
fn first_cells(page: &str, heading: &str) -> BTreeSet<String> {
    let text = read(page);
    let rows = text.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    let cells = rows.map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(", "));
    names.map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn each_default_policy_has_a_row() {
    let crates = files("wasm-rules/policies");
    let name = |path: String| Some(path.split('/').nth(2)?.to_owned());
    let policies: BTreeSet<_> = crates.into_iter().filter_map(name).collect();
    assert!(policies.contains("sizing"), "{policies:?}");
    assert_eq!(first_cells("wasm-rules/README.md", "| policy | applies to"), policies);
}

#[test]
fn each_label_of_doctor_has_a_row() {
    let code = read("collector/doctor/src/findings.rs");
    let labels = Regex::new(r#"Self::\w+ => "(.+)","#).unwrap();
    let labels: BTreeSet<_> = labels.captures_iter(&code).map(|it| it[1].to_owned()).collect();
    assert!(labels.contains("Driver"), "{labels:?}");
    assert_eq!(first_cells("docs/doctor.md", "| label | content"), labels);
}
