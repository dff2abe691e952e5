//! A crate is small enough to be read, and to be compiled and tested in a short loop.

use std::collections::BTreeMap;

use crate::repository::{files, read};

/// The most lines of Rust that a crate has, without its tests.
const MOST: usize = 15_000;

/// The lines before the tests of a file.
fn lines(text: &str) -> usize {
    text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

#[test]
fn no_crate_is_too_large() {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    let sources = ["collector", "rules", "wasm-rules"].into_iter().flat_map(files);
    for path in sources.filter(|path| path.ends_with(".rs") && !path.ends_with("/tests.rs")) {
        if let Some((name, _)) = path.split_once("/src/") {
            *sizes.entry(name.to_owned()).or_default() += lines(&read(&path));
        }
    }
    assert!(sizes.len() > 20, "found {} crates", sizes.len());
    let large: Vec<_> = sizes.iter().filter(|(_, lines)| **lines > MOST).collect();
    assert!(large.is_empty(), "more than {MOST} lines, cut at a seam: {large:?}");
}

#[test]
fn lines_of_tests_do_not_count() {
    assert_eq!(lines("//! A\nfn a() {}\n#[cfg(test)]\nmod tests {}\n"), 2);
    assert_eq!(lines("struct A;\n    #[cfg(test)]\n"), 2);
}
