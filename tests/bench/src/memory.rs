//! Peak memory of an audit, which must not grow with the log.

use crate::costs::grouped;
use crate::paths::Paths;
use crate::{BenchError, audit};

/// Rows of each log.
const ROWS: [u64; 2] = [1_000_000, 10_000_000];

/// Runs the audits and prints the table.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("Peak memory of an audit\n");
    println!("{:28}{:>12}{:>10}", "", "peak", "ratio");
    let mut first = None;
    let mut print = |name: String, peak: u64| {
        let peak = peak as f64;
        let ratio = peak / *first.get_or_insert(peak);
        println!("{name:28}{:>8.1} MiB{ratio:>10.2}", peak / f64::from(1 << 20));
    };
    for rows in ROWS {
        let peak = audit::run(paths, &paths.log(rows)?)?.peak;
        print(format!("{} rows", grouped(rows)), peak);
    }
    let [rows, _] = ROWS;
    let log = paths.log(rows)?;
    // The first run compiles the policies in a child process that would be counted as well.
    audit::run_with_policies(paths, &log)?;
    print(
        format!("{} rows, with policies", grouped(rows)),
        audit::run_with_policies(paths, &log)?.peak,
    );
    Ok(())
}
