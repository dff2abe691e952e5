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
    let mut told = |what: String, peak: u64| {
        let peak = peak as f64;
        let ratio = peak / *first.get_or_insert(peak);
        println!("{what:28}{:>8.1} MiB{ratio:>10.2}", peak / f64::from(1 << 20));
    };
    for rows in ROWS {
        let peak = audit::run(place, &place.log(rows)?)?.peak;
        told(format!("{} rows", grouped(rows)), peak);
    }
    let [rows, _] = ROWS;
    let log = place.log(rows)?;
    // The first time they are compiled, by a child that counts as well.
    audit::advised(place, &log)?;
    told(format!("{} rows, with advice", grouped(rows)), audit::advised(place, &log)?.peak);
    Ok(())
}
