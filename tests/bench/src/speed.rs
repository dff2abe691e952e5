//! Time per row: a whole audit, polars on the same logs, and the core alone.

use std::fs;
use std::path::PathBuf;

use crate::costs::{Costs, grouped};
use crate::paths::Paths;
use crate::polars::Polars;
use crate::{BenchError, audit, log, meter};

/// Rows of all logs together, and readings of the core.
const ROWS: u64 = 2_000_000;
/// Logs, if there are several.
const LOGS: u64 = 4;
/// Runs of each, interleaved, so that machine noise affects all alike.
const RUNS: u32 = 9;

/// Runs them and prints the tables.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let polars = Polars::find(paths);
    if polars.is_none() {
        println!("polars: not installed, no comparison");
    }
    let log = paths.logs(1, ROWS)?;
    let bytes = log.first().map_or(Ok(0), |log| {
        fs::metadata(log).map(|log| log.len() / ROWS).map_err(BenchError::at(log))
    })?;
    println!("Time per row: {} rows of {bytes} bytes, {} GPUs per log", grouped(ROWS), log::GPUS);
    println!("Best and median of {RUNS} interleaved runs; ratio to the best run of polars\n");
    cpu(paths, &log, polars.as_ref())?;
    wall(paths, &log, polars.as_ref())?;
    wall(paths, &paths.logs(LOGS, ROWS / LOGS)?, polars.as_ref())
}

/// CPU time, which polars spends least of on one thread.
fn cpu(paths: &Paths, log: &[PathBuf], polars: Option<&Polars>) -> Result<(), BenchError> {
    let [mut audits, mut queries, mut core] = [const { Costs::over(ROWS) }; 3];
    for _ in 0..RUNS {
        audits.add(audit::run(paths, log)?.cpu);
        if let Some(polars) = polars {
            queries.add(polars.count(log, ROWS, Some(1))?.cpu);
        }
        core.add(meter::run(ROWS)?);
    }
    Costs::print_header("CPU time, one log");
    audits.print("phasemeter audit", &queries);
    if let Some(polars) = polars {
        queries.print(&format!("polars {}, one thread", polars.version), &queries);
    }
    core.print("the core alone, one GPU", &queries);
    println!();
    Ok(())
}

/// Wall time on all cores.
fn wall(paths: &Paths, logs: &[PathBuf], polars: Option<&Polars>) -> Result<(), BenchError> {
    let [mut audits, mut queries] = [const { Costs::over(ROWS) }; 2];
    for _ in 0..RUNS {
        audits.add(audit::run(paths, logs)?.wall);
        if let Some(polars) = polars {
            queries.add(polars.count(logs, ROWS, None)?.wall);
        }
    }
    let several =
        if logs.len() == 1 { "one log".to_owned() } else { format!("{} logs", logs.len()) };
    Costs::print_header(&format!("Wall time, {several}"));
    audits.print("phasemeter audit", &queries);
    if let Some(polars) = polars {
        queries.print(&format!("polars {}, all cores", polars.version), &queries);
    }
    println!();
    Ok(())
}
