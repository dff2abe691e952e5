//! Work done over time: a CSV file with the columns `time`, `unit` and `count`.
//!
//! Rows are added up by unit and UTC hour. Those outside of the metered span do not count: its bill has no
//! cost of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor};
use std::path::{Path, PathBuf};

use phasemeter_engine::work::WorkByHour;
use phasemeter_meter::instant::{Instant, hour_of};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::work_unit::WorkUnit;

const HEADER: &str = "time,unit,count";

/// Maximum number of hours: ten years.
const MAX_HOURS: usize = 10 * 366 * 24;

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 4_096;

/// Maximum size of a stream, which is kept to be read twice.
const MAX_STREAM: u64 = 256 << 20;

/// By how much a row may precede or follow the metered span: a logger and its workload do not begin and end
/// at one instant.
const SLACK: Nanos = Nanos::from_secs(60);

/// A first and a last instant.
pub(super) type Span = (Timestamp, Timestamp);

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
    /// None of its work is within the metered span.
    #[error(
        "{}: its work is from {work}, but GPUs were metered from {metered}; give the work of that time, \
         in UTC",
        .path.display()
    )]
    Apart {
        /// The file.
        path: PathBuf,
        /// Its first and its last row.
        work: String,
        /// What was metered.
        metered: String,
    },
}

/// A work log that is valid.
#[derive(Debug)]
pub(super) struct WorkLog {
    path: PathBuf,
    /// Its content, if it is not a regular file: then it can be read once only.
    content: Option<Vec<u8>>,
    rows: Rows,
}

/// Rows of a work log.
#[derive(Debug, Default)]
struct Rows {
    /// What counts.
    hours: WorkByHour,
    /// What does not count, by unit.
    outside: BTreeMap<String, u64>,
    /// The first and the last row of all.
    span: Option<Span>,
}

/// The work within a span.
#[derive(Debug, Default)]
pub(super) struct WorkWithin {
    /// By UTC hour.
    pub(super) by_hour: WorkByHour,
    /// What does not count, in sentences.
    pub(super) notes: Vec<String>,
}

impl WorkLog {
    /// Reads a work log.
    pub(super) fn read(path: &Path) -> Result<Self, WorkLogError> {
        let unreadable = |source| WorkLogError::Unreadable { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        let is_regular = file.metadata().map_err(unreadable)?.is_file();
        let mut content = None;
        if !is_regular {
            let read = phasemeter_files::read(&mut file, MAX_STREAM);
            content = Some(read.map_err(unreadable)?);
        }
        let rows = match &content {
            Some(bytes) => parse(path, Cursor::new(bytes), None)?,
            None => parse(path, BufReader::new(file), None)?,
        };
        Ok(Self { path: path.to_owned(), content, rows })
    }

    /// The work within a metered span; all of it if nothing was metered.
    pub(super) fn within(self, metered: Option<Span>) -> Result<WorkWithin, WorkLogError> {
        let Self { path, content, rows } = self;
        let (Some((from, to)), Some((first, last))) = (metered, rows.span) else {
            return Ok(WorkWithin { by_hour: rows.hours, notes: Vec::new() });
        };
        let limits = (from.saturating_sub(SLACK), to + SLACK);
        if limits.0 <= first && last <= limits.1 {
            return Ok(WorkWithin { by_hour: rows.hours, notes: Vec::new() });
        }
        let unreadable = |source| WorkLogError::Unreadable { path: path.clone(), source };
        let Rows { hours, outside, .. } = match content {
            Some(bytes) => parse(&path, Cursor::new(bytes), Some(limits))?,
            None => {
                let file = File::open(&path).map_err(unreadable)?;
                parse(&path, BufReader::new(file), Some(limits))?
            }
        };
        let [work, metered] = [(first, last), (from, to)].map(span_text);
        if hours.is_empty() {
            return Err(WorkLogError::Apart { path, work, metered });
        }
        let within = totals(&hours);
        let note = |(unit, count): (&String, &u64)| {
            let inside = within.iter().find(|(it, _)| it.name() == unit).map_or(0, |it| it.1);
            let all = count.saturating_add(inside);
            format!(
                "{}: {count} of {all} {unit} do not count, since they are not of the metered time, {metered}",
                path.display()
            )
        };
        let notes = outside.iter().map(note).collect();
        Ok(WorkWithin { by_hour: hours, notes })
    }
}

/// The total of each unit.
pub(super) fn totals(hours: &WorkByHour) -> Vec<(WorkUnit, u64)> {
    let of = |unit: WorkUnit| {
        let counts = hours.values().filter_map(|work| work.get(unit.name()));
        counts.fold(0_u64, |sum, count| sum.saturating_add(*count))
    };
    let totals = WorkUnit::ALL.into_iter().map(|unit| (unit, of(unit)));
    totals.filter(|(_, total)| *total > 0).collect()
}

fn span_text((from, to): Span) -> String {
    format!("{} to {}", Instant(from), Instant(to))
}

/// Reads rows. With `limits`, those outside of them do not count.
fn parse(path: &Path, mut input: impl BufRead, limits: Option<Span>) -> Result<Rows, WorkLogError> {
    let unreadable = |source| WorkLogError::Unreadable { path: path.to_owned(), source };
    let mut rows = Rows::default();
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
        let added = rows.add(row, limits);
        added.map_err(|problem| WorkLogError::Row { path: path.to_owned(), line, problem })?;
    }
    Ok(rows)
}

impl Rows {
    fn add(&mut self, row: &str, limits: Option<Span>) -> Result<(), String> {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        let [time, unit, count] = cells[..] else {
            return Err(format!("{} cells, not 3; expected {HEADER}", cells.len()));
        };
        let Instant(at) = time.parse().map_err(|error| format!("time {time:?}: {error}"))?;
        let unit = WorkUnit::from_any_case(unit).ok_or_else(|| {
            let units = WorkUnit::ALL.map(WorkUnit::name).join(", ");
            format!("unit {unit:?}: expected one of {units}")
        })?;
        let count: u64 = count
            .parse()
            .map_err(|_| format!("count {count:?}: expected a whole number of 0 or more"))?;
        self.span = Some(self.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        if limits.is_some_and(|(from, to)| at < from || to < at) {
            let sum = self.outside.entry(unit.name().to_owned()).or_default();
            *sum = sum.saturating_add(count);
            return Ok(());
        }
        let hour = hour_of(at);
        if self.hours.len() == MAX_HOURS && !self.hours.contains_key(&hour) {
            return Err(format!("more than {MAX_HOURS} hours; split the run"));
        }
        let sum = self.hours.entry(hour).or_default().entry(unit.name().to_owned()).or_default();
        *sum = sum.checked_add(count).ok_or("the counts of this hour exceed 64 bits")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<WorkByHour, String> {
        let rows = parse(Path::new("w.csv"), text.as_bytes(), None);
        rows.map(|rows| rows.hours).map_err(|error| error.to_string())
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

    fn within(text: &str, metered: (u64, u64)) -> Result<WorkWithin, String> {
        let path = Path::new("w.csv").to_owned();
        let content = Some(text.as_bytes().to_vec());
        let rows = parse(&path, text.as_bytes(), None).unwrap();
        let at = |second: u64| Timestamp::from_millis((1_785_110_400 + second) * 1_000).unwrap();
        let metered = (at(metered.0), at(metered.1));
        WorkLog { path, content, rows }.within(Some(metered)).map_err(|error| error.to_string())
    }

    #[test]
    fn work_outside_of_metered_time_does_not_count_and_is_noted() {
        let text = "time,unit,count\n2026-07-26T23:58:59Z,samples,5\n2026-07-27T00:00:30Z,samples,6\n\
                    2026-07-27T00:10:59Z,tokens,7\n2026-07-27T00:11:01Z,tokens,8\n";
        let found = within(text, (0, 600)).unwrap();
        assert_eq!(totals(&found.by_hour), [(WorkUnit::Samples, 6), (WorkUnit::Tokens, 7)]);
        let span = "2026-07-27T00:00:00Z to 2026-07-27T00:10:00Z";
        let notes = [("5 of 11 samples", span), ("8 of 15 tokens", span)].map(|(count, span)| {
            format!("w.csv: {count} do not count, since they are not of the metered time, {span}")
        });
        assert_eq!(found.notes, notes);
        // A minute before and after is of the run.
        assert_eq!(within(text, (0, 601)).unwrap().notes.len(), 1);
    }

    #[test]
    fn work_of_another_time_is_rejected_with_both_spans() {
        let text =
            "time,unit,count\n2026-07-26T00:00:00Z,samples,5\n2026-07-26T09:00:00Z,samples,6\n";
        assert_eq!(
            within(text, (0, 600)).unwrap_err(),
            "w.csv: its work is from 2026-07-26T00:00:00Z to 2026-07-26T09:00:00Z, but GPUs were \
             metered from 2026-07-27T00:00:00Z to 2026-07-27T00:10:00Z; give the work of that time, in UTC"
        );
        // Rows on both sides of it, and none within.
        let around =
            "time,unit,count\n2026-07-26T00:00:00Z,samples,5\n2026-07-28T00:00:00Z,samples,6\n";
        assert!(within(around, (0, 600)).is_err());
        assert!(within("time,unit,count\n", (0, 600)).unwrap().by_hour.is_empty());
    }
}
