//! Peak memory of an audit, which must not grow with the log.

use std::{fs, io};

use crate::costs::grouped;
use crate::paths::Paths;
use crate::{BenchError, audit};

/// Rows of each log.
const ROWS: [u64; 2] = [1_000_000, 10_000_000];

/// Runs the audits and prints the table.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("Peak memory of an audit\n");
    println!("{:34}{:>12}{:>10}", "", "peak", "ratio");
    let mut first = None;
    let mut print = |name: String, peak: u64| {
        let peak = peak as f64;
        let ratio = peak / *first.get_or_insert(peak);
        println!("{name:34}{:>8.1} MiB{ratio:>10.2}", peak / f64::from(1 << 20));
    };
    for rows in ROWS {
        let peak = audit::run(paths, &paths.logs(1, rows)?)?.peak;
        print(format!("{} rows", grouped(rows)), peak);
    }
    let [rows, _] = ROWS;
    let log = paths.logs(1, rows)?;
    // Child processes are counted as well: the first run is the one that would compile policies.
    let cache = paths.file("policy-cache");
    match fs::remove_dir_all(&cache) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(BenchError::at(&cache)(error));
        }
        _ => {}
    }
    for run in ["first", "second"] {
        let name = format!("{} rows, policies, {run}", grouped(rows));
        print(name, audit::run_with_policies(paths, &log, &cache)?.peak);
    }
    Ok(())
}
