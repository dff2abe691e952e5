//! Large fleets: audits of their logs, and a gateway that meters what a Collector scrapes.

mod audits;
mod scraped;

use crate::BenchError;
use crate::paths::Paths;

/// Runs all and prints the tables.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    audits::bench(paths)?;
    scraped::bench(paths)
}
