//! The page of invariants names the test behind each, and SECURITY.md the test behind each rule. Every one of them
//! must exist, and so must what pages link to.

use std::collections::BTreeSet;

use regex::Regex;

use crate::repository::{files, read, root};

/// One row of the table: its line, its invariant, and what its last cell names in backticks.
#[derive(Debug)]
struct Row {
    line: usize,
    invariant: String,
    proofs: Vec<String>,
}

/// Rows of the table whose last column is "proved by".
fn rows(document: &str) -> Vec<Row> {
    let code = Regex::new("`([^`]+)`").unwrap();
    let mut rows = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        let cells: Vec<_> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') {
            inside = false;
        } else if cells.last().is_some_and(|last| last.eq_ignore_ascii_case("proved by")) {
            inside = true;
        } else if inside && !line.starts_with("|-") {
            let last = cells.last().unwrap();
            rows.push(Row {
                line: index + 1,
                invariant: cells[0].to_owned(),
                proofs: code.captures_iter(last).map(|found| found[1].to_owned()).collect(),
            });
        }
    }
    rows
}

/// The file with this path, or the files in the directory.
fn at(all: &[String], path: &str) -> Vec<String> {
    let directory = format!("{}/", path.trim_end_matches('/'));
    let is_there = |file: &&String| *file == path || file.starts_with(&directory);
    all.iter().filter(is_there).cloned().collect()
}

/// What a row names and the repository lacks.
fn missing(row: &Row, all: &[String], read: &dyn Fn(&str) -> String) -> Vec<String> {
    let targets: BTreeSet<String> = read("Makefile")
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect();
    let mut problems = Vec::new();
    let mut current: Vec<String> = Vec::new();
    for proof in &row.proofs {
        if let Some(target) = proof.strip_prefix("make ") {
            if !targets.contains(target) {
                problems.push(format!("no target `{target}` in the Makefile"));
            }
        } else if proof.contains('/') || proof.contains('.') {
            current = at(all, proof);
            if current.is_empty() {
                problems.push(format!("no file or directory `{proof}`"));
            }
        } else {
            let name = proof.rsplit("::").next().unwrap();
            let function = Regex::new(&format!(r"\bfn {}\s*[(<]", regex::escape(name))).unwrap();
            let exists =
                current.iter().any(|path| path.ends_with(".rs") && function.is_match(&read(path)));
            if !exists && !targets.contains(proof) {
                problems.push(format!("no test `{proof}` in {}", current.join(", ")));
            }
        }
    }
    if row.proofs.is_empty() {
        problems.push("names no test".to_owned());
    }
    problems
}

#[test]
fn tests_named_by_invariants_exist() {
    let all = files("");
    let mut problems = Vec::new();
    for (document, min_rows) in [("docs/dev/invariants.md", 150), ("SECURITY.md", 50)] {
        let rows = rows(&read(document));
        assert!(rows.len() > min_rows, "the tables of {document} were not found");
        for row in &rows {
            let at = format!("{document}:{}: {}", row.line, row.invariant);
            let missing = missing(row, &all, &read).into_iter();
            problems.extend(missing.map(|problem| format!("{at}: {problem}")));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn links_of_pages_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#\s]+)").unwrap();
    let mut problems = Vec::new();
    for page in files("").iter().filter(|path| path.ends_with(".md")) {
        let directory = root().join(page);
        let text = read(page);
        let links = link.captures_iter(&text).map(|found| found[1].to_owned());
        for target in links.filter(|target| !target.contains(':')) {
            if !directory.parent().unwrap().join(&target).exists() {
                problems.push(format!("{page}: no file {target}"));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn missing_proofs_are_reported() {
    let document = "| invariant | why | proved by |\n|---|---|---|\n\
        | a | b | `meter/line.rs` `holds`, `fails`; `meter/`; `line.rs` |\n\
        | c | d | `make test` (`deny`), `make tea` |\n\
        | e | f | by hand |\n";
    let all = ["meter/line.rs".to_owned()];
    let read = |path: &str| match path {
        "Makefile" => "test: all\ndeny:\n".to_owned(),
        _ => "fn holds() {}".to_owned(),
    };
    let problems: Vec<_> =
        rows(document).iter().flat_map(|row| missing(row, &all, &read)).collect();
    assert_eq!(
        problems,
        [
            "no test `fails` in meter/line.rs",
            "no file or directory `line.rs`",
            "no target `tea` in the Makefile",
            "names no test",
        ]
    );
}
