//! What a row costs: a whole audit, polars on the same log, and the core alone.

use std::fs;

use crate::costs::{Costs, grouped};
use crate::place::Place;
use crate::polars::Polars;
use crate::{BenchError, audit, log, meter};

/// Rows of the log, and readings of the core.
const ROWS: u64 = 10_000_000;
/// Runs of each, taking turns, so that a slow moment of the machine meets all.
const RUNS: u32 = 5;

/// Runs it and prints the table.
pub(crate) fn bench(place: &Place) -> Result<(), BenchError> {
    let log = place.log(ROWS)?;
    let bytes = fs::metadata(&log).map_err(BenchError::at(&log))?.len() / ROWS;
    let polars = Polars::find(place);
    let [mut audits, mut counts, mut core] = [const { Costs::over(ROWS) }; 3];
    for _ in 0..RUNS {
        audits.add(audit::run(place, &log)?.cpu);
        if let Some(polars) = &polars {
            counts.add(polars.count(&log, ROWS)?);
        }
        core.add(meter::run(ROWS)?);
    }

    println!("CPU time a row: {} rows of {bytes} bytes, {} GPUs", grouped(ROWS), log::GPUS);
    println!("Best and median of {RUNS} runs, taking turns; the ratio is to polars at its best\n");
    println!("{:28}{:>12}{:>12}{:>16}{:>10}", "", "best", "median", "rows a second", "ratio");
    audits.print("phasemeter audit", &counts);
    match &polars {
        Some(polars) => counts.print(&format!("polars {}, one thread", polars.version), &counts),
        None => println!("polars is not installed here: nothing to compare with"),
    }
    core.print("the core alone, one GPU", &counts);
    println!();
    Ok(())
}
