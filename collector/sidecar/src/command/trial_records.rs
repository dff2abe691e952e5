//! The records of trials in a directory, each checked by its reports.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::read::{Sha256, read_whole};
use phasemeter_bill::report::Report;
use phasemeter_bill::trial::{Record, Source};
use phasemeter_logs::log::decode;
use phasemeter_savings::trial::Settled;

use super::error::CommandError;
use super::report_files::MAX_REPORT;

/// How the names of records end.
pub(super) const ENDING: &str = ".trial.json";

/// The most that is read of a record.
const MAX_RECORD: u64 = 1 << 20;

/// The trials that the records of a directory have settled. None without a directory.
pub(super) fn settled(dir: Option<&Path>) -> Result<Vec<Settled>, CommandError> {
    let records = dir.map_or_else(|| Ok(Vec::new()), records)?;
    Ok(records.iter().filter_map(|(name, record)| record.settled(name)).collect())
}

/// The records of a directory, by name, each with its reports as it states them.
pub(super) fn records(dir: &Path) -> Result<Vec<(String, Record)>, CommandError> {
    let names = fs::read_dir(dir).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()
    });
    let names = names.map_err(|source| unreadable(&dir.display().to_string(), source))?;
    let names = names.iter().filter_map(|name| name.to_str());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(ENDING)).collect();
    names.sort_unstable();
    let read = |name: &str| {
        let mut json = Vec::new();
        File::open(dir.join(name))
            .and_then(|file| file.take(MAX_RECORD).read_to_end(&mut json))
            .map_err(|source| unreadable(name, source))?;
        let record = Record::parse(name, &json)?;
        let (before, after) = (&record.before.file, &record.after.file);
        let [(first, first_digest), (second, second_digest)] =
            [open(dir, before)?, open(dir, after)?];
        record.verify(
            name,
            Source { file: before, report: &first, digest: &first_digest },
            Source { file: after, report: &second, digest: &second_digest },
        )?;
        Ok((name.to_owned(), record))
    };
    names.into_iter().map(read).collect()
}

/// A report by its path relative to the records.
pub(super) fn open(dir: &Path, file: &str) -> Result<(Report, Sha256), CommandError> {
    let text = File::open(dir.join(file)).and_then(|file| decode(Box::new(file)));
    let text = text.map_err(|source| unreadable(file, source))?;
    Ok(read_whole(file, text.take(MAX_REPORT)).map_err(BillError::from)?)
}

fn unreadable(file: &str, source: io::Error) -> CommandError {
    BillError::from(ReadError::Unreadable { file: file.to_owned(), source }).into()
}
