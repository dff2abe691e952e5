//! `phasemeter demo`: a made-up fleet through the same line.

use super::Failure;
use super::metering::{self, Provenance};
use super::outlets::Outlets;
use crate::cli::DemoArgs;
use crate::source::demo::Demo;

/// Meters the fleet of this seed and reports.
pub(super) fn run(args: DemoArgs) -> Result<(), Failure> {
    let DemoArgs { seed, metering, send } = args;
    let mut source = Demo::new(seed);
    let mut outlets = Outlets::open(&metering.report, &send)?;
    let run = metering::meter(&metering, &mut source, &mut outlets, |_| {})?;
    let provenance = Provenance {
        title: format!("demo, seed {seed}"),
        power_basis: None,
        rejected_rows: Vec::new(),
        rejected_total: 0,
        assumptions: vec!["the fleet and all its readings are made up".to_owned()],
    };
    metering::report(&metering, &source, &run, provenance).and(outlets.finish())
}
