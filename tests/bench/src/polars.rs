//! The baseline for an audit: polars, parsing what the audit parses and keeping the least of it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::paths::Paths;
use crate::{BenchError, child};

const SCRIPT: &str = include_str!("polars_count.py");

/// A Python with polars.
pub(crate) struct Polars {
    python: PathBuf,
    output: PathBuf,
    /// Version reported by polars.
    pub(crate) version: String,
}

impl Polars {
    /// Finds the Python installed by `make bench`; `None` if polars is not installed.
    pub(crate) fn find(paths: &Paths) -> Option<Self> {
        let python = paths.python();
        let output = Command::new(&python)
            .args(["-c", "import polars; print(polars.__version__)"])
            .output()
            .ok()?;
        let version = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        let file = paths.file("polars.txt");
        output.status.success().then_some(Self { python, output: file, version })
    }

    /// Time of the query on these logs, without the start of Python. `threads`: at most so many,
    /// else one per core.
    pub(crate) fn count(
        &self,
        logs: &[PathBuf],
        rows: u64,
        threads: Option<u32>,
    ) -> Result<QueryTime, BenchError> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]).args(logs);
        if let Some(threads) = threads {
            command.env("POLARS_MAX_THREADS", threads.to_string());
        }
        child::run(&mut command, &self.output)?;
        let text = fs::read_to_string(&self.output).map_err(BenchError::at(&self.output))?;
        QueryTime::parse(&text, rows).ok_or_else(|| BenchError::Output {
            path: self.output.clone(),
            expected: "the row count, the CPU seconds and the wall seconds",
        })
    }
}

/// What a query took.
pub(crate) struct QueryTime {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Time from start to end.
    pub(crate) wall: Duration,
}

impl QueryTime {
    /// Parses the output of the script; `None` if it counted other than `rows`.
    fn parse(text: &str, rows: u64) -> Option<Self> {
        let mut words = text.split_whitespace();
        let counted: u64 = words.next()?.parse().ok()?;
        let mut time = || Duration::try_from_secs_f64(words.next()?.parse().ok()?).ok();
        Some(Self { cpu: time()?, wall: time()? }).filter(|_| counted == rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_time_requires_the_row_count() {
        let time = QueryTime::parse("8 0.5 0.25\n", 8).unwrap();
        assert_eq!((time.cpu.as_millis(), time.wall.as_millis()), (500, 250));
        assert!(QueryTime::parse("7 0.5 0.25\n", 8).is_none());
    }
}
