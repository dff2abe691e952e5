//! What Phasemeter costs, beside what it is compared with, in one run.
//!
//! `make bench` builds what is measured here and starts this. Each part prints a table of its own;
//! `make bench PARTS=live` does some of them.

#![forbid(unsafe_code)]

mod audit;
mod child;
mod costs;
mod live;
mod log;
mod memory;
mod meter;
mod place;
mod polars;
mod policies;
mod speed;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use fake_nvml::install::InstallError;
use place::Place;

/// What there is to measure, in the order in which it is.
const PARTS: [&str; 4] = ["live", "speed", "memory", "policies"];

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
    let mut parts: Vec<_> = std::env::args().skip(1).collect();
    if parts.is_empty() {
        parts = PARTS.map(str::to_owned).to_vec();
    }
    for part in parts {
        match part.as_str() {
            "live" => live::bench(&place)?,
            "speed" => speed::bench(&place)?,
            "memory" => memory::bench(&place)?,
            "policies" => policies::bench()?,
            _ => return Err(BenchError::NoPart(part)),
        }
    }
    Ok(())
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
    #[error("the scripted driver cannot be put there: {0}")]
    Driver(#[from] InstallError),
    #[error("what runs on this machine cannot be reached: {0}")]
    Network(io::Error),
    #[error("there is no part `{0}`; there are {list}", list = PARTS.join(", "))]
    NoPart(String),
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
