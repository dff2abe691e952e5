//! The baseline for an audit: polars on one thread, running the minimal equivalent query.

use std::fs;
use std::path::{Path, PathBuf};
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

    /// CPU time of the query on this log, without the start of Python.
    pub(crate) fn count(&self, log: &Path, rows: u64) -> Result<Duration, BenchError> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]).arg(log).env("POLARS_MAX_THREADS", "1");
        child::run(&mut command, &self.output)?;
        let text = fs::read_to_string(&self.output).map_err(BenchError::at(&self.output))?;
        text.split_once(' ')
            .filter(|(counted, _)| *counted == rows.to_string())
            .and_then(|(_, seconds)| seconds.trim().parse().ok())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| BenchError::Output {
                path: self.output.clone(),
                expected: "the row count and the seconds",
            })
    }
}
