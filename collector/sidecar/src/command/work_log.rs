//! Work done over time: a CSV file with the columns `time`, `unit` and `count`.
//!
//! Rows are added up by unit and UTC hour. Must not depend on reports.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use phasemeter_meter::instant::{Instant, hour_of};

use crate::cli::WorkUnit;
use crate::report::WorkByHour;

const HEADER: &str = "time,unit,count";

/// Maximum number of hours: ten years.
const MAX_HOURS: usize = 10 * 366 * 24;

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 4_096;

/// Why a work log is rejected.
#[derive(Debug, thiserror::Error)]
pub enum WorkLogError {
    /// It cannot be read.
    #[error("{}: cannot be read; check its name and permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Its header is another one.
    #[error("{}, line 1: expected the header {HEADER}", .0.display())]
    Header(PathBuf),
    /// A row is invalid.
    #[error("{}, line {line}: {problem}", .path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is expected.
        problem: String,
    },
}

/// Reads a work log.
pub(super) fn read(path: &Path) -> Result<WorkByHour, WorkLogError> {
    let unreadable = |source| WorkLogError::Unreadable { path: path.to_owned(), source };
    parse(path, BufReader::new(File::open(path).map_err(unreadable)?))
}

/// The total of each unit.
pub(super) fn totals(hours: &WorkByHour) -> Vec<(WorkUnit, u64)> {
    let of = |unit: &WorkUnit| {
        let counts = hours.values().filter_map(|work| work.get(unit.name()));
        counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
    };
    let totals = WorkUnit::value_variants().iter().map(|unit| (*unit, of(unit)));
    totals.filter(|(_, total)| *total > 0).collect()
}

fn parse(path: &Path, mut input: impl BufRead) -> Result<WorkByHour, WorkLogError> {
    let unreadable = |source| WorkLogError::Unreadable { path: path.to_owned(), source };
    let mut hours = WorkByHour::new();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let mut limited = io::Read::take(&mut input, MAX_LINE);
        if limited.read_until(b'\n', &mut text).map_err(unreadable)? == 0 {
            break;
        }
        let row = std::str::from_utf8(&text).unwrap_or("\u{fffd}").trim();
        match line {
            1 if row.trim_start_matches('\u{feff}') == HEADER => continue,
            1 => return Err(WorkLogError::Header(path.to_owned())),
            _ if row.is_empty() => continue,
            _ => {}
        }
        let added = add(&mut hours, row);
        added.map_err(|problem| WorkLogError::Row { path: path.to_owned(), line, problem })?;
    }
    Ok(hours)
}

fn add(hours: &mut WorkByHour, row: &str) -> Result<(), String> {
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    let [time, unit, count] = cells[..] else {
        return Err(format!("{} cells, not 3; expected {HEADER}", cells.len()));
    };
    let Instant(at) = time.parse().map_err(|error| format!("time {time:?}: {error}"))?;
    let units = || WorkUnit::value_variants().iter().map(|unit| unit.name()).collect::<Vec<_>>();
    let unit = WorkUnit::from_str(unit, true)
        .map_err(|_| format!("unit {unit:?}: expected one of {}", units().join(", ")))?;
    let count: u64 = count
        .parse()
        .map_err(|_| format!("count {count:?}: expected a whole number of 0 or more"))?;
    let hour = hour_of(at);
    if hours.len() == MAX_HOURS && !hours.contains_key(&hour) {
        return Err(format!("more than {MAX_HOURS} hours; split the run"));
    }
    let sum = hours.entry(hour).or_default().entry(unit.name().to_owned()).or_default();
    *sum = sum.checked_add(count).ok_or("the counts of this hour exceed 64 bits")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<WorkByHour, String> {
        parse(Path::new("w.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_added_up_by_hour() {
        let text = "time,unit,count\n2026-07-27T00:10:00Z,samples,5\n2026-07-27T00:59:59.9Z,samples,6\n\
                    2026-07-27T01:00:00Z,tokens,7\n";
        let hours = parsed(text).unwrap();
        let found: Vec<_> = hours
            .iter()
            .map(|(at, work)| (Instant(*at).to_string(), format!("{work:?}")))
            .collect();
        assert_eq!(
            found,
            [
                ("2026-07-27T00:00:00Z".to_owned(), r#"{"samples": 11}"#.to_owned()),
                ("2026-07-27T01:00:00Z".to_owned(), r#"{"tokens": 7}"#.to_owned()),
            ]
        );
        assert_eq!(totals(&hours), [(WorkUnit::Samples, 11), (WorkUnit::Tokens, 7)]);
    }

    #[test]
    fn invalid_rows_name_line_and_value() {
        for (text, expected) in [
            ("", None),
            ("a,b\n", Some("w.csv, line 1: expected the header time,unit,count")),
            (
                "time,unit,count\n1,2\n",
                Some("w.csv, line 2: 2 cells, not 3; expected time,unit,count"),
            ),
            (
                "time,unit,count\nnow,samples,1\n",
                Some(
                    "w.csv, line 2: time \"now\": expected a time in UTC like 2026-07-27T00:22:27Z, \
                     from 1970 to 2261",
                ),
            ),
            (
                "time,unit,count\n2026-07-27T00:00:00Z,samples,-1\n",
                Some("w.csv, line 2: count \"-1\": expected a whole number of 0 or more"),
            ),
        ] {
            assert_eq!(parsed(text).err().as_deref(), expected);
        }
        let unit = parsed("time,unit,count\n2026-07-27T00:00:00Z,cats,1\n").unwrap_err();
        assert!(
            unit.starts_with("w.csv, line 2: unit \"cats\": expected one of samples, "),
            "{unit}"
        );
    }
}
