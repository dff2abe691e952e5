//! Names and wording: rejects the patterns in `naming.toml`.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;

use regex::Regex;
use toml::{Table, Value};

use crate::repository::{files, read, root};

const RULES: &str = "tests/conventions/naming.toml";

/// Locations that a failure lists per rule.
const LISTED: usize = 20;

/// A rejected pattern.
struct Rule {
    pattern: Regex,
    /// Matches paths instead of text.
    of_paths: bool,
    /// What to write instead.
    instead: String,
    /// Matches of `pattern` within matches of this are accepted.
    allowed: Option<Regex>,
    included: Vec<String>,
    excluded: Vec<String>,
    /// How many matches are accepted.
    most: usize,
}

/// A match of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    at: String,
    text: String,
}

impl Rule {
    /// Reads one rule of a group.
    fn new(rule: &Table, group: &Table) -> Self {
        let (key, pattern) = ["word", "text", "type", "fn", "file"]
            .into_iter()
            .find_map(|key| Some((key, rule.get(key)?.as_str()?)))
            .unwrap_or_else(|| panic!("{RULES}: no pattern in {rule:?}"));
        let pattern = match key {
            "word" => format!(r"\b(?:{pattern})\b"),
            "type" => format!(r"\b(?:struct|enum|trait|type|union) (?:{pattern})\b"),
            "fn" => format!(r"\bfn (?:{pattern})\b"),
            _ => pattern.to_owned(),
        };
        let regex = |pattern: &str| {
            Regex::new(&format!("(?m){pattern}")).unwrap_or_else(|error| panic!("{RULES}: {error}"))
        };
        let list = |key: &str| rule.get(key).or_else(|| group.get(key)).map(strings);
        Self {
            pattern: regex(&pattern),
            of_paths: key == "file",
            instead: rule["use"].as_str().unwrap().to_owned(),
            allowed: rule.get("allow").and_then(Value::as_str).map(regex),
            included: list("in").unwrap_or_default(),
            excluded: list("except").unwrap_or_default(),
            most: rule.get("most").and_then(Value::as_integer).unwrap_or(0).try_into().unwrap(),
        }
    }

    fn applies_to(&self, path: &str) -> bool {
        let among = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, path));
        (self.included.is_empty() || among(&self.included)) && !among(&self.excluded)
    }

    /// All matches in one file.
    fn find(&self, path: &str, text: &str) -> Vec<Found> {
        if !self.applies_to(path) {
            return Vec::new();
        }
        let searched = if self.of_paths { path } else { text };
        let allowed: Vec<Range<usize>> = self
            .allowed
            .iter()
            .flat_map(|allowed| allowed.find_iter(searched).map(|found| found.range()))
            .collect();
        self.pattern
            .find_iter(searched)
            .filter(|found| {
                let inside =
                    |range: &Range<usize>| range.start <= found.start() && found.end() <= range.end;
                !allowed.iter().any(inside)
            })
            .map(|found| {
                let line = text[..found.start().min(text.len())].matches('\n').count() + 1;
                let at = if self.of_paths { path.to_owned() } else { format!("{path}:{line}") };
                Found { at, text: found.as_str().trim().to_owned() }
            })
            .collect()
    }
}

/// Whether a path has a prefix, or, after `*`, a suffix.
fn matches(pattern: &str, path: &str) -> bool {
    pattern.strip_prefix('*').map_or_else(|| path.starts_with(pattern), |end| path.ends_with(end))
}

fn strings(value: &Value) -> Vec<String> {
    let values = value.as_array().unwrap_or_else(|| panic!("{RULES}: {value:?}: expected a list"));
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

/// Files that are not searched, and rules.
fn parse(rules: &str) -> (Vec<String>, Vec<Rule>) {
    let table: Table = rules.parse().unwrap_or_else(|error| panic!("{RULES}: {error}"));
    let groups = table["group"].as_array().unwrap().iter().map(|group| group.as_table().unwrap());
    let rules = groups.flat_map(|group| {
        let rules = group["rules"].as_array().unwrap();
        rules.iter().map(move |rule| Rule::new(rule.as_table().unwrap(), group))
    });
    (strings(&table["ignored"]), rules.collect())
}

#[test]
fn rejected_names_are_gone() {
    let (ignored, rules) = parse(&read(RULES));
    let texts: Vec<_> = files("")
        .into_iter()
        .filter(|path| !ignored.iter().any(|pattern| matches(pattern, path)))
        .map(|path| {
            // Not all are text.
            let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
            (path, text)
        })
        .collect();
    let mut problems = String::new();
    for rule in rules {
        let found: Vec<_> = texts.iter().flat_map(|(path, text)| rule.find(path, text)).collect();
        if found.len() <= rule.most {
            continue;
        }
        let limit = if rule.most > 0 { format!(" (at most {})", rule.most) } else { String::new() };
        writeln!(problems, "{} × {}{limit}", found.len(), rule.pattern).unwrap();
        for Found { at, text } in found.iter().take(LISTED) {
            writeln!(problems, "    {at}: `{text}`: use {}", rule.instead).unwrap();
        }
        if found.len() > LISTED {
            writeln!(problems, "    …").unwrap();
        }
    }
    assert!(problems.is_empty(), "rejected names ({RULES}):\n{problems}");
}

#[test]
fn rules_match_words_definitions_and_paths() {
    let (_, rules) = parse(
        r#"
        ignored = []
        [[group]]
        in = ["src/", "*.md"]
        rules = [
            { word = "old", use = "new", allow = "old school", except = ["src/old"] },
            { type = "Thing", use = "Item" },
            { file = '/thing\.rs$', use = "item.rs" },
        ]
        "#,
    );
    let found = |path: &str, text: &str| -> Vec<_> {
        let all = rules.iter().flat_map(|rule| rule.find(path, text));
        all.map(|found| format!("{} {}", found.at, found.text)).collect()
    };
    assert_eq!(
        found("src/a.rs", "bold\nold, old school\nold"),
        ["src/a.rs:2 old", "src/a.rs:3 old"]
    );
    assert_eq!(found("src/a.rs", "Thing\npub struct Thing {"), ["src/a.rs:2 struct Thing"]);
    assert_eq!(found("src/thing.rs", ""), ["src/thing.rs /thing.rs"]);
    assert_eq!(found("docs/a.md", "old"), ["docs/a.md:1 old"]);
    assert!(found("src/old.rs", "old").is_empty() && found("other/a.rs", "old").is_empty());
}
