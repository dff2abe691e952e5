//! `phasemeter demo`: a made-up fleet through the same line.

use phasemeter_sources::Source;
use phasemeter_sources::demo::Demo;
use phasemeter_sources::paced::Paced;

use super::Failure;
use super::metering::{self, Provenance};
use super::outlets::Outlets;
use super::wakes::Wakes;
use crate::cli::{DemoArgs, MeteringArgs};

/// Meters the fleet of this seed and reports.
pub(super) fn run(args: DemoArgs) -> Result<(), Failure> {
    let DemoArgs { seed, metering, send, speed } = args;
    let outlets = Outlets::open(&metering.report, &send)?;
    let source = Demo::new(seed);
    let Some(speed) = speed else { return show(source, seed, &metering, outlets) };
    let wakes = Wakes::listen(false)
        .map_err(|source| Failure::System { what: "signals cannot be received", source })?;
    let wait = |wait| wakes.next(wait).is_none();
    show(Paced::new(source, Demo::LENGTH, speed, wait), seed, &metering, outlets)
}

fn show<S: Source>(
    mut source: S,
    seed: u64,
    metering: &MeteringArgs,
    mut outlets: Outlets,
) -> Result<(), Failure> {
    let run = metering::meter(metering, &mut source, &mut outlets, |_| {})?;
    let provenance = Provenance {
        title: format!("demo, seed {seed}"),
        power_basis: None,
        rejected_rows: Vec::new(),
        rejected_total: 0,
        assumptions: vec!["the fleet and its readings are synthetic".to_owned()],
        sampling: Vec::new(),
        delivery: Vec::new(),
        timed: false,
    };
    metering::report(metering, &source, &run, provenance).and(outlets.finish())
}
