//! `phasemeter policy test`: recorded windows, and the advice that is expected on each.
//!
//! ```text
//! tests/NAME.window.json     what the policy is shown
//! tests/NAME.advice.json     what it should answer; --bless writes it
//! tests/NAME.settings.json   its settings for that; without it the defaults
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::Recommendation;
use phasemeter_rules::recorded;
use similar::{ChangeTag, TextDiff};

use super::PolicyFailure;
use super::desk::{self, Desk};
use super::project::Project;
use super::shown::Shown;
use crate::cli::TestArgs;
use crate::command::Failure;
use crate::report::text::clean;

/// Lines around a difference.
const AROUND: usize = 3;

/// Shows the policy every window, and says where its advice is not the expected.
pub(super) fn run(args: &TestArgs) -> Result<ExitCode, Failure> {
    let wasm = Project::open(&args.folder)?.wasm();
    let folder = args.folder.join("tests");
    let cases = cases(&folder)?;
    let desk = Desk::open(&args.host)?;
    // Most cases have the same settings, and so the same policy.
    let mut policies: BTreeMap<Option<PathBuf>, Policy> = BTreeMap::new();
    let mut failed = 0;
    for case in &cases {
        let settings = Some(case.beside("settings")).filter(|path| path.exists());
        if !policies.contains_key(&settings) {
            policies.insert(settings.clone(), desk.load(&wasm, settings.as_deref())?);
        }
        let Some(policy) = policies.get(&settings) else { continue };
        let outcome = case.try_with(policy, args.bless)?;
        println!("{}: {}", clean(&case.window.display().to_string()), outcome.name());
        if let Outcome::Differs(difference) = &outcome {
            print!("{difference}");
        }
        failed += usize::from(!outcome.is_fine());
    }
    let tried = cases.len();
    println!("{tried} {}, {failed} failed", if tried == 1 { "window" } else { "windows" });
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A window to be tried.
struct Case {
    window: PathBuf,
}

/// What came of it.
enum Outcome {
    Same,
    Blessed,
    Missing,
    Differs(String),
}

impl Outcome {
    const fn is_fine(&self) -> bool {
        matches!(self, Self::Same | Self::Blessed)
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Same => "as expected",
            Self::Blessed => "written down",
            Self::Missing => "nothing is expected yet: --bless writes its advice down",
            Self::Differs(_) => "differs",
        }
    }
}

/// The windows of a folder, in byte order of their names.
fn cases(folder: &Path) -> Result<Vec<Case>, PolicyFailure> {
    let unreadable = |source| PolicyFailure::Unreadable { path: folder.to_owned(), source };
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let window = entry.map_err(unreadable)?.path();
        if window.to_str().is_some_and(|path| path.ends_with(".window.json")) {
            cases.push(Case { window });
        }
    }
    cases.sort_by(|a, b| a.window.cmp(&b.window));
    if cases.is_empty() { Err(PolicyFailure::NoTests(folder.to_owned())) } else { Ok(cases) }
}

impl Case {
    /// `NAME.KIND.json` of `NAME.window.json`.
    fn beside(&self, kind: &str) -> PathBuf {
        self.window.with_extension("").with_extension(format!("{kind}.json"))
    }

    fn try_with(&self, policy: &Policy, bless: bool) -> Result<Outcome, Failure> {
        let (advice, _) = desk::ask(policy, &Shown::recorded(&self.window)?)?;
        let path = self.beside("advice");
        let found = text(&advice)?;
        if bless {
            desk::write(&path, found.as_bytes())?;
            return Ok(Outcome::Blessed);
        }
        if !path.exists() {
            return Ok(Outcome::Missing);
        }
        // Read and written again, so that only what it says counts, and not its blanks.
        let shown = path.display().to_string();
        let expected = recorded::read_advice(&shown, &desk::read(&path)?);
        let expected = text(&expected.map_err(PolicyFailure::from)?)?;
        Ok(if found == expected {
            Outcome::Same
        } else {
            Outcome::Differs(diff(&expected, &found))
        })
    }
}

fn text(advice: &[Recommendation]) -> Result<String, Failure> {
    let mut text = Vec::new();
    recorded::write_advice(advice, &mut text).map_err(Failure::Output)?;
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
