//! Paths of the bench, all in the target directory that this program was built into.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::{BenchError, log};

/// The target directory, and the one of this program.
pub(crate) struct Paths {
    target: PathBuf,
    programs: PathBuf,
}

impl Paths {
    /// Derives it from the path of this program and creates the directory for logs.
    pub(crate) fn find() -> Result<Self, BenchError> {
        let program = env::current_exe().map_err(BenchError::CurrentExe)?;
        let programs = program.parent().unwrap_or(Path::new("target/release")).to_owned();
        let target = programs.parent().unwrap_or(Path::new("target")).to_owned();
        let paths = Self { target, programs };
        let files = paths.file("");
        fs::create_dir_all(&files).map_err(BenchError::at(&files))?;
        Ok(paths)
    }

    /// The measured program, beside this one.
    pub(crate) fn phasemeter(&self) -> PathBuf {
        self.programs.join("phasemeter")
    }

    /// The Python with polars, if installed.
    pub(crate) fn python(&self) -> PathBuf {
        self.target.join("bench-venv").join("bin").join("python")
    }

    /// A file in the directory of the bench.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.target.join("bench").join(name)
    }

    /// This many logs of so many rows each, written if they do not exist.
    pub(crate) fn logs(&self, count: u64, rows: u64) -> Result<Vec<PathBuf>, BenchError> {
        let log = |number| {
            let path = self.file(&format!("{rows}-{number}.csv"));
            log::write(&path, rows).map_err(BenchError::at(&path))?;
            Ok(path)
        };
        (1..=count).map(log).collect()
    }
}
