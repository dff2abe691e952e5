//! One file: what it sets, and what is wrong with it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use phasemeter_environment::variables::Environment;
use phasemeter_otlp::delivery::{Config, Destination};
use serde_json::Value;

use crate::arguments::{self, Given};
use crate::finding::{Finding, Problem};
use crate::node::Node;
use crate::options::Options;
use crate::reader::Setting;
use crate::variables::{self, Variables};
use crate::{print, schema_check, yaml};

/// The most that is read of a file.
const MAX_BYTES: u64 = 1 << 20;

/// Versions of the format that are known; a later one may have more keys.
const KNOWN: [&str; 2] = ["1.0", "1.1"];

/// Which versions of the format are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Those that are known: the file is Phasemeter's.
    Own,
    /// Any 1.x: the file is for the command that is metered.
    OfACommand,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be read; check that it is a file of at most 1 MiB", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

/// What a file sets.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    findings: Vec<Finding>,
    root: Option<Node>,
    variables: Variables,
    given: Vec<Given>,
}

impl Configuration {
    /// Reads a file.
    pub(crate) fn read(
        (options, schema): (&Options, &Value),
        path: &Path,
        strictness: Strictness,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, FileError> {
        let failed = |source| FileError { path: path.to_owned(), source };
        let text = phasemeter_files::read_text(path, MAX_BYTES).map_err(failed)?;
        Ok(Self::parse((options, schema), &text, strictness, lookup))
    }

    /// The configuration of a text. Values that are wrong set nothing; of a text that is not a document of a
    /// version that is read, nothing is used.
    pub(crate) fn parse(
        (options, schema): (&Options, &Value),
        text: &str,
        strictness: Strictness,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let of = |finding| Self { findings: vec![finding], ..Self::default() };
        let (root, mut findings) = match yaml::parse(text, lookup) {
            Ok((Some(root), findings)) => (root, findings),
            Ok((None, _)) => {
                let problem = Problem::Missing("file_format".to_owned());
                return of(Finding::new(1, String::new(), problem));
            }
            Err(finding) => return of(finding),
        };
        let version = root.get("file_format").and_then(Node::text).unwrap_or_default();
        let is_first = version.split_once('.').is_some_and(|(major, minor)| {
            major == "1" && !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())
        });
        let later = (!KNOWN.contains(&version.as_str())).then(|| {
            let line = root.get("file_format").map_or(root.line, |node| node.line);
            Finding::new(line, "file_format".to_owned(), Problem::Version("1.0 or 1.1"))
        });
        if let Some(finding) = later.filter(|_| !is_first || strictness == Strictness::Own) {
            return of(finding);
        }
        let of_schema = schema_check::check(&root, schema);
        let is_known = |key: &str| findings.iter().any(|finding| finding.key == key);
        let others: Vec<_> = of_schema.into_iter().filter(|it| !is_known(&it.key)).collect();
        findings.extend(others);
        let (given, refused) = arguments::read(&root, options);
        let mut variables = variables::read(&root);
        let is_wrong = |key: &str| findings.iter().any(|finding| finding.key == key);
        variables.settings.retain(|_, setting| !is_wrong(&setting.key));
        findings.extend(invalid_variables(&mut variables));
        findings.extend(refused);
        findings.sort_by_key(|finding| finding.line);
        findings.dedup();
        let is_clean = |key: &str| !findings.iter().any(|finding| finding.key.starts_with(key));
        variables.without_effect.retain(|(_, key)| is_clean(key));
        Self { findings, root: Some(root), variables, given }
    }

    /// What is wrong, by line.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// What is allowed by OpenTelemetry's schema, but has no effect here: keys, with their lines.
    #[must_use]
    pub fn without_effect(&self) -> &[(usize, String)] {
        &self.variables.without_effect
    }

    /// The value that the file gives a variable of OpenTelemetry.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.settings.get(name).map(|setting| setting.value.as_str())
    }

    /// Whether it is a document of a version that is read.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        self.root.is_some()
    }

    /// The line of a key.
    pub(crate) fn line_of(&self, key: &str) -> Option<usize> {
        self.root.as_ref()?.at(key).map(|node| node.line)
    }

    pub(crate) const fn settings(&self) -> &BTreeMap<String, Setting> {
        &self.variables.settings
    }

    pub(crate) fn given(&self) -> &[Given] {
        &self.given
    }

    /// The document after substitution, without secrets.
    #[must_use]
    pub fn print(&self) -> String {
        self.root.as_ref().map(print::yaml).unwrap_or_default()
    }
}

/// In place of an endpoint that is refused, so that all else of its signal is read.
const ENDPOINT: &str = "https://localhost:1";

/// What those who read the variables refuse, under the key that each comes from. They are not set.
fn invalid_variables(variables: &mut Variables) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut checked = variables.settings.clone();
    // One problem may hide another.
    loop {
        let before = findings.len();
        for text in refusals(&checked) {
            let of = |name: &&String| {
                text.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with([':', '=', ' ']))
            };
            let Some(name) = checked.keys().find(of).cloned() else { continue };
            variables.settings.remove(&name);
            let Some(mut setting) = checked.remove(&name) else { continue };
            // Before what is expected, some have the value.
            let expected =
                text.rfind("expected ").map(|start| Problem::Value(text[start..].to_owned()));
            let rest = text[name.len()..].trim_start_matches([':', ' ']);
            let problem =
                expected.unwrap_or_else(|| Problem::Refused(without(rest, &setting.value)));
            findings.push(Finding::new(setting.line, setting.key.clone(), problem));
            if name.ends_with("_ENDPOINT") && setting.value != ENDPOINT {
                setting.value = ENDPOINT.to_owned();
                checked.insert(name, setting);
            }
        }
        if findings.len() == before {
            return findings;
        }
    }
}

/// A reason without the value, such as the path of a file.
fn without(reason: &str, value: &str) -> String {
    if value.is_empty() { reason.to_owned() } else { reason.replace(value, "it") }
}

/// What is wrong with variables: each text begins with the name of one.
fn refusals(settings: &BTreeMap<String, Setting>) -> Vec<String> {
    let lookup = |name: &str| settings.get(name).map(|it| it.value.clone());
    let ignored = Environment::read(lookup).warnings;
    let (_, refused) = Config::read_usable(Destination::Environment, lookup);
    let ignored = ignored.iter().map(ToString::to_string);
    ignored.chain(refused.as_slice().iter().map(ToString::to_string)).collect()
}
