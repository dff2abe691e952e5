//! `phasemeter policy test`: recorded windows or quote requests, and the answer expected to each.
//!
//! ```text
//! tests/NAME.window.json     what a recommender is shown
//! tests/NAME.recommendations.json what it should answer; --update writes it
//! tests/NAME.request.json    what a pricer is asked
//! tests/NAME.quote.json      what it should answer; --update writes it
//! tests/NAME.settings.json   the settings for that; without it the defaults
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;
use similar::{ChangeTag, TextDiff};

use super::PolicyFailure;
use super::answer::Answer;
use super::desk::{self, Desk};
use super::project::Project;
use super::shown::Shown;
use crate::cli::TestArgs;
use crate::command::Failure;
use crate::report::text::clean;

/// Lines around a difference.
const AROUND: usize = 3;

/// What the recorded files of a kind of policy are called: the question, and its answer.
const fn names(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Recommender => ("window", "recommendations"),
        Kind::Pricer => ("request", "quote"),
    }
}

/// Asks the policy everything, and says where its answer is not the expected.
pub(super) fn run(args: &TestArgs) -> Result<ExitCode, Failure> {
    let wasm = Project::open(&args.folder)?.wasm();
    let folder = args.folder.join("tests");
    let cases = cases(&folder)?;
    let desk = Desk::open(&args.host)?;
    // Cases without settings of their own have the same policy.
    let mut policies: BTreeMap<Option<PathBuf>, Policy> = BTreeMap::new();
    let mut failed = 0;
    for case in &cases {
        let settings = Some(case.beside("settings")).filter(|path| path.exists());
        if !policies.contains_key(&settings) {
            policies.insert(settings.clone(), desk.load(&wasm, settings.as_deref())?);
        }
        let Some(policy) = policies.get(&settings) else { continue };
        let outcome = case.try_with(policy, args.update)?;
        println!("{}: {}", clean(&case.asked.display().to_string()), outcome.name());
        if let Outcome::Differs(difference) = &outcome {
            print!("{difference}");
        }
        failed += usize::from(!outcome.is_fine());
    }
    let tried = cases.len();
    println!("{tried} {}, {failed} failed", if tried == 1 { "test" } else { "tests" });
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A question to be asked.
struct Case {
    /// Which policies it is for.
    kind: Kind,
    asked: PathBuf,
}

/// What came of it.
enum Outcome {
    Same,
    Updated,
    Missing,
    Differs(String),
}

impl Outcome {
    const fn is_fine(&self) -> bool {
        matches!(self, Self::Same | Self::Updated)
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Same => "as expected",
            Self::Updated => "written down",
            Self::Missing => "nothing is expected yet: --update writes its answer down",
            Self::Differs(_) => "differs",
        }
    }
}

/// The questions of a folder, in byte order of their names.
fn cases(folder: &Path) -> Result<Vec<Case>, PolicyFailure> {
    let unreadable = |source| PolicyFailure::Unreadable { path: folder.to_owned(), source };
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let asked = entry.map_err(unreadable)?.path();
        let name = asked.to_str().unwrap_or_default();
        let is_for = |kind: &Kind| name.ends_with(&format!(".{}.json", names(*kind).0));
        let kind = Kind::ALL.into_iter().find(is_for);
        cases.extend(kind.map(|kind| Case { kind, asked }));
    }
    cases.sort_by(|a, b| a.asked.cmp(&b.asked));
    if cases.is_empty() { Err(PolicyFailure::NoTests(folder.to_owned())) } else { Ok(cases) }
}

impl Case {
    /// `NAME.WHAT.json`, where the question is `NAME.window.json` or `NAME.request.json`.
    fn beside(&self, what: &str) -> PathBuf {
        self.asked.with_extension("").with_extension(format!("{what}.json"))
    }

    fn try_with(&self, policy: &Policy, update: bool) -> Result<Outcome, Failure> {
        let (answer, _) = desk::ask(policy, &Shown::recorded(self.kind, &self.asked)?)?;
        let path = self.beside(names(self.kind).1);
        let found = text(&answer)?;
        if update {
            desk::write(&path, found.as_bytes())?;
            return Ok(Outcome::Updated);
        }
        if !path.exists() {
            return Ok(Outcome::Missing);
        }
        // Read and written again, so that only what it says counts, and not its blanks.
        let expected = text(&Answer::recorded(self.kind, &path)?)?;
        Ok(if found == expected {
            Outcome::Same
        } else {
            Outcome::Differs(diff(&expected, &found))
        })
    }
}

fn text(answer: &Answer) -> Result<String, Failure> {
    let mut text = Vec::new();
    answer.write(&mut text).map_err(Failure::Output)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What was expected, after a minus, and what came instead, after a plus.
fn diff(expected: &str, found: &str) -> String {
    let diff = TextDiff::from_lines(expected, found);
    let mut text = String::new();
    for group in diff.grouped_ops(AROUND) {
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
