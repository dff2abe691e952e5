//! Wording: rejects the patterns in `wording.toml`.

use std::fmt::Write as _;
use std::fs;

use regex::Regex;
use toml::Table;

use crate::repository::{files, read, root};

const RULES: &str = "tests/conventions/wording.toml";

/// Locations that a failure lists per rule.
const LISTED: usize = 20;

/// A rejected pattern.
struct Rule {
    pattern: Regex,
    /// What to write instead.
    instead: String,
    /// Matches of `pattern` within matches of this are accepted.
    allowed: Option<Regex>,
    /// Endings of the paths that it applies to; all if empty.
    endings: Vec<String>,
}

impl Rule {
    fn new(rule: &Table) -> Self {
        let regex = |pattern: &str| Regex::new(&format!("(?m){pattern}")).unwrap();
        let text = |key: &str| rule.get(key).and_then(toml::Value::as_str);
        let words = || Some(format!(r"\b(?:{})\b", text("word")?));
        let pattern = text("text").map(str::to_owned).or_else(words).unwrap();
        Self {
            pattern: regex(&pattern),
            instead: text("use").unwrap().to_owned(),
            allowed: text("allow").map(regex),
            endings: rule.get("in").map(strings).unwrap_or_default(),
        }
    }

    /// The lines of all matches in one file, with what they match.
    fn find(&self, path: &str, text: &str) -> Vec<(usize, String)> {
        if !self.endings.is_empty() && !ends_with_any(path, &self.endings) {
            return Vec::new();
        }
        let allowed = self.allowed.iter().flat_map(|allowed| allowed.find_iter(text));
        let allowed: Vec<_> = allowed.map(|found| found.range()).collect();
        let is_rejected = |found: &regex::Match<'_>| {
            !allowed.iter().any(|range| range.start <= found.start() && found.end() <= range.end)
        };
        let line = |found: &regex::Match<'_>| text[..found.start()].matches('\n').count() + 1;
        let found = self.pattern.find_iter(text).filter(is_rejected);
        found.map(|found| (line(&found), found.as_str().trim().to_owned())).collect()
    }
}

fn ends_with_any(path: &str, endings: &[String]) -> bool {
    endings.iter().any(|ending| path.ends_with(ending))
}

fn strings(value: &toml::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

/// Endings of the paths of files that are not searched, and rules.
fn parse(rules: &str) -> (Vec<String>, Vec<Rule>) {
    let table: Table = rules.parse().unwrap_or_else(|error| panic!("{RULES}: {error}"));
    let rules = table["rules"].as_array().unwrap().iter();
    (strings(&table["ignored"]), rules.map(|rule| Rule::new(rule.as_table().unwrap())).collect())
}

#[test]
fn rejected_wording_is_gone() {
    let (ignored, rules) = parse(&read(RULES));
    let searched = files("").into_iter().filter(|path| !ends_with_any(path, &ignored));
    // Not all are text.
    let text = |path: &String| fs::read_to_string(root().join(path)).unwrap_or_default();
    let texts: Vec<_> = searched.map(|path| (text(&path), path)).collect();
    let mut problems = String::new();
    for rule in rules {
        let found = texts.iter().flat_map(|(text, path)| {
            rule.find(path, text).into_iter().map(move |found| (path, found))
        });
        for (path, (line, text)) in found.take(LISTED) {
            writeln!(problems, "{path}:{line}: `{text}`: use {}", rule.instead).unwrap();
        }
    }
    assert!(problems.is_empty(), "rejected wording ({RULES}):\n{problems}");
}

#[test]
fn rules_match_words_and_endings() {
    let (_, rules) = parse(
        r#"
        ignored = []
        rules = [{ word = "old", use = "new", allow = "old school", in = [".rs"] }]
        "#,
    );
    let found = rules[0].find("src/a.rs", "bold\nold, old school\nold");
    assert_eq!(found, [(2, "old".to_owned()), (3, "old".to_owned())]);
    assert!(rules[0].find("docs/a.md", "old").is_empty());
}
