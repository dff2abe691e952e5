//! What Phasemeter costs, beside what it is compared with, in one run.
//!
//! `make bench` builds what is measured here and starts this. Each part prints a table of its own.

#![forbid(unsafe_code)]

mod audit;
mod child;
mod costs;
mod log;
mod memory;
mod meter;
mod place;
mod polars;
mod speed;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use place::Place;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), BenchError> {
    let place = Place::find()?;
    speed::bench(&place)?;
    memory::bench(&place)
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot find out where this program is: {0}")]
    Place(io::Error),
    #[error("{program} does not start: {source}; is it built?")]
    Start { program: String, source: io::Error },
    #[error("cannot wait for {program}: {source}")]
    Wait { program: String, source: io::Error },
    #[error("{program} failed, {status}")]
    Failed { program: String, status: ExitStatus },
    #[error("the core refused a reading that is in order")]
    Refused,
    #[error("{}: this is not what was asked for: {what}", path.display())]
    Output { path: PathBuf, what: &'static str },
}

impl BenchError {
    /// For `map_err`, where a file is at fault.
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.to_owned(), source }
    }
}
