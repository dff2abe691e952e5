//! CPU time per row: a whole audit, polars on the same log, and the core alone.

use std::fs;

use crate::costs::{Costs, grouped};
use crate::paths::Paths;
use crate::polars::Polars;
use crate::{BenchError, audit, log, meter};

/// Rows of the log, and readings of the core.
const ROWS: u64 = 10_000_000;
/// Runs of each, interleaved, so that machine noise affects all alike.
const RUNS: u32 = 5;

/// Runs them and prints the table.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let log = paths.log(ROWS)?;
    let bytes = fs::metadata(&log).map_err(BenchError::at(&log))?.len() / ROWS;
    let polars = Polars::find(paths);
    let [mut audits, mut counts, mut core] = [const { Costs::over(ROWS) }; 3];
    for _ in 0..RUNS {
        audits.add(audit::run(paths, &log)?.cpu);
        if let Some(polars) = &polars {
            counts.add(polars.count(&log, ROWS)?);
        }
        core.add(meter::run(ROWS)?);
    }

    println!("CPU time per row: {} rows of {bytes} bytes, {} GPUs", grouped(ROWS), log::GPUS);
    println!("Best and median of {RUNS} interleaved runs; ratio to the best run of polars\n");
    println!("{:28}{:>12}{:>12}{:>16}{:>10}", "", "best", "median", "rows per second", "ratio");
    audits.print("phasemeter audit", &counts);
    match &polars {
        Some(polars) => counts.print(&format!("polars {}, one thread", polars.version), &counts),
        None => println!("polars: not installed, no comparison"),
    }
    core.print("the core alone, one GPU", &counts);
    println!();
    Ok(())
}
