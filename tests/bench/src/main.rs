//! Measures the overhead of Phasemeter beside comparable tools, in one run.
//!
//! `make bench` builds everything and runs this program. Each part prints a table; `make bench
//! PARTS=live` runs selected parts.

#![forbid(unsafe_code)]

mod audit;
mod child;
mod costs;
#[path = "../../../collector/holders/tests/node/fake_kubelet.rs"]
#[allow(dead_code, reason = "each user uses a part")]
#[allow(clippy::unwrap_used, clippy::panic, reason = "it is a test's")]
mod fake_kubelet;
mod fleet;
mod fleets;
mod gateway;
mod hostile;
mod live;
mod log;
mod memory;
mod meter;
#[path = "../../nodes/mod.rs"]
mod nodes;
mod otelcol;
mod paths;
mod polars;
mod policies;
mod process;
#[path = "../../relay/mod.rs"]
mod relay;
mod resident;
mod situations;
mod speed;
mod worst;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use fake_nvml::install::InstallError;
use paths::Paths;
use phasemeter_situations::{AuditError, LoadError};

/// All parts in execution order.
const PARTS: [&str; 12] = [
    "start",
    "live",
    "agent",
    "gateway",
    "speed",
    "fleet",
    "memory",
    "hostile",
    "worst",
    "policies",
    "situations",
    "fleets",
];

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
    let paths = Paths::find()?;
    let mut parts: Vec<_> = std::env::args().skip(1).collect();
    if parts.is_empty() {
        parts = PARTS.map(str::to_owned).to_vec();
    }
    if parts.len() > 1 {
        return each_in_a_process(&parts);
    }
    for part in parts {
        match part.as_str() {
            "start" => live::start::bench(&paths)?,
            "live" => live::bench(&paths)?,
            "agent" => live::agent::bench(&paths)?,
            "gateway" => gateway::bench(&paths)?,
            "speed" => speed::bench(&paths)?,
            "fleet" => fleet::bench(&paths)?,
            "memory" => memory::bench(&paths)?,
            "hostile" => hostile::bench(&paths)?,
            "worst" => worst::bench(&paths)?,
            "policies" => policies::bench()?,
            "situations" => situations::bench(&paths)?,
            "fleets" => fleets::bench(&paths)?,
            _ => return Err(BenchError::UnknownPart(part)),
        }
    }
    Ok(())
}

/// Runs each part in a process of its own: the peak memory that Linux reports of a program is at least
/// that of the process that started it.
fn each_in_a_process(parts: &[String]) -> Result<(), BenchError> {
    let program = std::env::current_exe().map_err(BenchError::CurrentExe)?;
    for part in parts {
        if !PARTS.contains(&part.as_str()) {
            return Err(BenchError::UnknownPart(part.clone()));
        }
        let status = Command::new(&program).arg(part).status();
        let name = || format!("the part {part}");
        let status = status.map_err(|source| BenchError::Start { program: name(), source })?;
        if !status.success() {
            return Err(BenchError::Failed { program: name(), status });
        }
    }
    Ok(())
}

/// Why a part could not be measured.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot determine the path of this program: {0}")]
    CurrentExe(io::Error),
    #[error("cannot start {program}: {source}; build it first")]
    Start { program: String, source: io::Error },
    #[error("cannot wait for {program}: {source}")]
    Wait { program: String, source: io::Error },
    #[error("{program} failed: {status}")]
    Failed { program: String, status: ExitStatus },
    #[error("cannot install the scripted driver: {0}")]
    Driver(#[from] InstallError),
    #[error("cannot reach a local process: {0}")]
    Network(io::Error),
    #[error("unknown part `{0}`; expected one of {list}", list = PARTS.join(", "))]
    UnknownPart(String),
    #[error("cannot load a situation: {0}")]
    Situation(#[from] LoadError),
    #[error("cannot audit a situation: {0}")]
    Audit(#[from] AuditError),
    #[error("cannot audit a fleet: {0}")]
    Fleet(#[from] phasemeter_fleets::AuditError),
    #[error("unexpected report: {0}")]
    Report(#[from] serde_json::Error),
    #[error("bounds that do not hold:\n  {}", .0.join("\n  "))]
    Bounds(Vec<String>),
    #[error("the gateway did not forward what it received")]
    Forwarding,
    #[error("the core rejected a valid reading")]
    RejectedReading,
    #[error("{}: unexpected output: expected {expected}", path.display())]
    Output { path: PathBuf, expected: &'static str },
}

impl BenchError {
    /// For `map_err` on file operations.
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.to_owned(), source }
    }
}
