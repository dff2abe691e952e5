//! What the recommendations of the default policies are worth on random fleets.

use phasemeter_fleets::{Audit, simulate};

use crate::BenchError;
use crate::paths::Paths;

/// Fleets. The numbers are seeds.
const FLEETS: u64 = 1_000;

/// Audits and replays all fleets, and prints the table. A bound that does not hold is an error.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let (program, dir) = (paths.phasemeter(), paths.file(""));
    let score = simulate(Audit { program: &program, dir: &dir }, 0..FLEETS, &|_, _| {})?;
    println!("Recommendations of the default policies for random fleets\n");
    println!("{score}");
    let broken = score.broken_bounds();
    if broken.is_empty() { Ok(()) } else { Err(BenchError::Bounds(broken)) }
}
