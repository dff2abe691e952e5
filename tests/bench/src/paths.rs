//! Where things are: all in the target folder that this program was built into.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::{BenchError, log};

/// The target folder.
pub(crate) struct Place(PathBuf);

impl Place {
    /// Finds it from where this program stands, and makes the folder for logs.
    pub(crate) fn find() -> Result<Self, BenchError> {
        let program = env::current_exe().map_err(BenchError::Place)?;
        let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
        let place = Self(target.to_owned());
        let files = place.file("");
        fs::create_dir_all(&files).map_err(BenchError::at(&files))?;
        Ok(place)
    }

    /// The program that is measured.
    pub(crate) fn phasemeter(&self) -> PathBuf {
        self.0.join("release").join("phasemeter")
    }

    /// The Python that has polars, where there is one.
    pub(crate) fn python(&self) -> PathBuf {
        self.0.join("bench-venv").join("bin").join("python")
    }

    /// A file of this bench.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join("bench").join(name)
    }

    /// The log of this many rows, written now if it is not there.
    pub(crate) fn log(&self, rows: u64) -> Result<PathBuf, BenchError> {
        let path = self.file(&format!("{rows}.csv"));
        log::write(&path, rows).map_err(BenchError::at(&path))?;
        Ok(path)
    }
}
