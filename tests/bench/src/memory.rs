//! Peak memory of an audit: it must not grow with the log.

use crate::costs::grouped;
use crate::place::Place;
use crate::{BenchError, audit};

/// Rows of the two logs.
const ROWS: [u64; 2] = [1_000_000, 10_000_000];

/// Runs it and prints the table.
pub(crate) fn bench(place: &Place) -> Result<(), BenchError> {
    println!("Peak memory of an audit\n");
    println!("{:28}{:>12}{:>10}", "", "peak", "ratio");
    let mut first = None;
    for rows in ROWS {
        let peak = audit::run(place, &place.log(rows)?)?.peak as f64;
        let ratio = peak / *first.get_or_insert(peak);
        let mebibytes = peak / f64::from(1 << 20);
        println!("{:28}{mebibytes:>8.1} MiB{ratio:>10.2}", format!("{} rows", grouped(rows)));
    }
    Ok(())
}
