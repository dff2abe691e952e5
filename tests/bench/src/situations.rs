//! How the recommendations of the default policies compare with what an expert would give.

use phasemeter_situations::{Audit, Matrix, Report, Situations, compare};

use crate::BenchError;
use crate::paths::Paths;

/// Audits all situations and prints the table. A bound that does not hold is an error.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let (program, dir) = (paths.phasemeter(), paths.file(""));
    let audit = Audit { program: &program, dir: &dir, model: None };
    let situations = Situations::load()?;
    let mut matrix = Matrix::default();
    for situation in &situations.all {
        let report = Report::parse(&audit.report(situation)?.0)?;
        matrix.add(compare(situation, &situations, &report));
    }
    println!("Recommendations of the default policies in tests/situations\n");
    println!("{matrix}");
    let broken = matrix.broken_bounds();
    if broken.is_empty() { Ok(()) } else { Err(BenchError::Bounds(broken)) }
}
