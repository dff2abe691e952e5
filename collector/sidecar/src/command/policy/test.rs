//! `phasemeter policy test`: evaluates test inputs and compares the output with the expected.
//!
//! ```text
//! tests/NAME.window.json           input of a recommender
//! tests/NAME.recommendations.json  expected output; --update writes it
//! tests/NAME.request.json          input of a pricer
//! tests/NAME.quote.json            expected output; --update writes it
//! tests/NAME.settings.json         settings of this test [default: none]
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;
use phasemeter_terminal::escape::clean;
use similar::{ChangeTag, TextDiff};

use super::error::PolicyCommandError;
use super::files;
use super::input::PolicyInput;
use super::loader::PolicyLoader;
use super::output::{self, PolicyOutput};
use super::project::Project;
use crate::command::error::CommandError;
use phasemeter_cli::TestArgs;

/// Lines of context around a difference.
const CONTEXT: usize = 3;

/// The suffixes of input and expected output for a kind of policy.
const fn suffixes(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Recommender => ("window", "recommendations"),
        Kind::Pricer => ("request", "quote"),
    }
}

/// Runs all tests and prints the differences.
pub(super) fn run(args: &TestArgs) -> Result<ExitCode, CommandError> {
    let component = Project::open(&args.dir)?.component()?;
    let cases = cases(&args.dir.join("tests"))?;
    let loader = PolicyLoader::new(&args.host)?;
    // Cases without settings of their own share one policy.
    let mut policies: BTreeMap<Option<PathBuf>, Policy> = BTreeMap::new();
    let mut failed = 0;
    for case in &cases {
        let settings = Some(case.beside("settings")).filter(|path| path.exists());
        if !policies.contains_key(&settings) {
            policies.insert(settings.clone(), loader.load(&component, settings.as_deref())?);
        }
        let Some(policy) = policies.get(&settings) else { continue };
        let outcome = case.run(policy, args.update)?;
        println!("{}: {}", clean(&case.input.display().to_string()), outcome.name());
        if let Outcome::Differs(difference) = &outcome {
            print!("{difference}");
        }
        failed += usize::from(!outcome.is_success());
    }
    let total = cases.len();
    println!("{total} {}, {failed} failed", if total == 1 { "test" } else { "tests" });
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A test.
struct Case {
    /// The kind of policy it is for.
    kind: Kind,
    /// Its input file.
    input: PathBuf,
}

/// The outcome of a test.
enum Outcome {
    Same,
    Updated,
    Missing,
    Differs(String),
}

impl Outcome {
    const fn is_success(&self) -> bool {
        matches!(self, Self::Same | Self::Updated)
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Same => "OK",
            Self::Updated => "updated",
            Self::Missing => "no expected output; run with --update to write it",
            Self::Differs(_) => "differs",
        }
    }
}

/// The tests of a directory, in byte order of their names.
fn cases(dir: &Path) -> Result<Vec<Case>, PolicyCommandError> {
    let unreadable = |source| PolicyCommandError::Read { path: dir.to_owned(), source };
    let mut cases = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let input = entry.map_err(unreadable)?.path();
        let name = input.to_str().unwrap_or_default();
        let is_for = |kind: &Kind| name.ends_with(&format!(".{}.json", suffixes(*kind).0));
        let kind = Kind::ALL.into_iter().find(is_for);
        cases.extend(kind.map(|kind| Case { kind, input }));
    }
    cases.sort_by(|a, b| a.input.cmp(&b.input));
    if cases.is_empty() { Err(PolicyCommandError::NoTests(dir.to_owned())) } else { Ok(cases) }
}

impl Case {
    /// The path of `NAME.{suffix}.json`, beside the input.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.input.with_extension("").with_extension(format!("{suffix}.json"))
    }

    fn run(&self, policy: &Policy, update: bool) -> Result<Outcome, CommandError> {
        let (output, _) = output::evaluate(policy, &PolicyInput::read(self.kind, &self.input)?)?;
        let path = self.beside(suffixes(self.kind).1);
        let actual = text(&output)?;
        if update {
            files::write(&path, actual.as_bytes())?;
            return Ok(Outcome::Updated);
        }
        if !path.exists() {
            return Ok(Outcome::Missing);
        }
        // Parsed and serialized again, so that formatting does not count.
        let expected = text(&PolicyOutput::read(self.kind, &path)?)?;
        Ok(if actual == expected {
            Outcome::Same
        } else {
            Outcome::Differs(diff(&expected, &actual))
        })
    }
}

fn text(output: &PolicyOutput) -> Result<String, CommandError> {
    let mut text = Vec::new();
    output.write_json(&mut text).map_err(CommandError::Output)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A unified diff: expected lines after a minus, actual lines after a plus.
fn diff(expected: &str, actual: &str) -> String {
    let diff = TextDiff::from_lines(expected, actual);
    let mut text = String::new();
    for group in diff.grouped_ops(CONTEXT) {
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            text.push_str("  ");
            text.push(sign);
            text.push_str(&clean(change.value().trim_end_matches('\n')));
            text.push('\n');
        }
    }
    text
}
