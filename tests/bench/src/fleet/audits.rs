//! CPU time per row of large fleets, each over several logs: it must not grow with the number of GPUs.

use std::fs;
use std::path::PathBuf;

use crate::costs::{Costs, grouped};
use crate::paths::Paths;
use crate::{BenchError, audit, log};

/// Number of logs.
const LOGS: u64 = 24;
/// GPUs per log.
const GPUS: [u64; 2] = [100, 1_000];
/// Rows per GPU.
const TICKS: u64 = 3;
/// Runs of each.
const RUNS: u32 = 3;

/// Runs them and prints the table.
pub(super) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("CPU time per row of large fleets: {LOGS} logs, {TICKS} rows per GPU\n");
    println!("{:28}{:>12}{:>12}{:>16}{:>10}", "", "best", "median", "rows per second", "ratio");
    let mut smallest: Option<Costs> = None;
    for gpus in GPUS {
        let logs = write_logs(paths, gpus)?;
        let mut costs = Costs::over(LOGS * gpus * TICKS);
        for _ in 0..RUNS {
            costs.add(audit::run(paths, &logs)?.cpu);
        }
        costs.print(&format!("{} GPUs", grouped(LOGS * gpus)), smallest.as_ref().unwrap_or(&costs));
        smallest.get_or_insert(costs);
    }
    println!();
    Ok(())
}

fn write_logs(paths: &Paths, gpus: u64) -> Result<Vec<PathBuf>, BenchError> {
    let dir = paths.file(&format!("fleet-{gpus}"));
    fs::create_dir_all(&dir).map_err(BenchError::at(&dir))?;
    (0..LOGS)
        .map(|number| {
            let path = dir.join(format!("{number}.csv"));
            log::write_fleet(&path, gpus, TICKS).map_err(BenchError::at(&path))?;
            Ok(path)
        })
        .collect()
}
