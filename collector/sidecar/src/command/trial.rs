//! `phasemeter trial`: settles a recommendation that was a hypothesis.

use std::path::{Path, PathBuf};

use phasemeter_bill::compare::{Options, text};
use phasemeter_bill::trial::{Record, Source, hexadecimal};
use phasemeter_savings::trial::Outcome;

use super::bill::{print, rendered};
use super::error::CommandError;
use super::files::ReplacedFile;
use super::trial_records::{ENDING, open};
use phasemeter_cli::TrialArgs;

/// Digits of the digest of the report after that are in the name of a record.
const DIGITS: usize = 12;

/// Settles a trial, prints what it shows, and writes its record.
pub(super) fn run(args: &TrialArgs) -> Result<(), CommandError> {
    let files = [&args.before, &args.after].map(|path| relative(&args.trials, path));
    let [before, after] = &files;
    let [(first, first_digest), (second, second_digest)] =
        [open(&args.trials, before)?, open(&args.trials, after)?];
    let options = Options { unit: args.unit.clone(), level: args.level, ..Options::default() };
    let (record, comparison) = Record::settle(
        Source { file: before, report: &first, digest: &first_digest },
        Source { file: after, report: &second, digest: &second_digest },
        args.recommendation.as_deref(),
        &options,
    )?;
    let digest: String = hexadecimal(&second_digest).chars().take(DIGITS).collect();
    let path = args.trials.join(format!("{}-{digest}{ENDING}", record.recommendation.code));
    ReplacedFile::at(&path)?.write(&record.to_json())?;
    let page = || {
        let names = [before.as_str(), after.as_str()];
        let mut page =
            comparison.map_or_else(String::new, |it| text::render(&it, names, args.level));
        page += &format!("Trial        {}\n", conclusion(&record));
        page + &format!("Record       {}\n", path.display())
    };
    print(&rendered(args.format, page, |out| {
        out.extend(record.to_json());
        Ok(())
    })?)
}

/// What a trial shows, in one line.
fn conclusion(record: &Record) -> String {
    let title = &record.recommendation.title;
    match record.result {
        Outcome::Saves => format!("{title}: it saves"),
        Outcome::NoDifference => format!("{title}: no difference"),
        Outcome::Worse => format!("{title}: it costs more"),
        Outcome::NotComparable => {
            format!("{title}: not comparable: {}", record.reasons.join("; "))
        }
    }
}

/// The path of a report relative to the records, if it is below them; else from the root.
fn relative(dir: &Path, path: &Path) -> String {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (dir, path): (PathBuf, PathBuf) = (whole(dir), whole(path));
    path.strip_prefix(&dir).unwrap_or(&path).display().to_string()
}
