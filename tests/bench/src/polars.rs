//! What the audit is compared with: polars on one thread, at the least that answers alike.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::place::Place;
use crate::{BenchError, child};

const SCRIPT: &str = include_str!("polars_count.py");

/// A Python with polars.
pub(crate) struct Polars {
    python: PathBuf,
    output: PathBuf,
    /// As polars gives it.
    pub(crate) version: String,
}

impl Polars {
    /// The one that `make bench` brought; `None` where it could not.
    pub(crate) fn find(place: &Place) -> Option<Self> {
        let python = place.python();
        let asked = Command::new(&python)
            .args(["-c", "import polars; print(polars.__version__)"])
            .output()
            .ok()?;
        let version = String::from_utf8(asked.stdout).ok()?.trim().to_owned();
        let output = place.file("polars.txt");
        asked.status.success().then_some(Self { python, output, version })
    }

    /// CPU time of the query alone on this log, without Python's own start.
    pub(crate) fn count(&self, log: &Path, rows: u64) -> Result<Duration, BenchError> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]).arg(log).env("POLARS_MAX_THREADS", "1");
        child::run(&mut command, &self.output)?;
        let said = fs::read_to_string(&self.output).map_err(BenchError::at(&self.output))?;
        said.split_once(' ')
            .filter(|(counted, _)| *counted == rows.to_string())
            .and_then(|(_, seconds)| seconds.trim().parse().ok())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| BenchError::Output {
                path: self.output.clone(),
                what: "all rows, and the seconds",
            })
    }
}
