//! `phasemeter demo`: meters a synthetic fleet.

use std::io;

use phasemeter_logs::Source;
use phasemeter_logs::demo::Demo;
use phasemeter_logs::paced::Paced;
use phasemeter_report::Provenance;

use super::error::CommandError;
use super::metering;
use super::output_files::OutputFiles;
use super::report_outputs::ReportOutputs;
use super::signals::{HangUp, SignalListener};
use super::sinks::Sinks;
use phasemeter_cli::{DemoArgs, MeteringArgs};

/// Meters the fleet of a seed and reports.
pub(super) fn run(args: DemoArgs) -> Result<(), CommandError> {
    let DemoArgs { seed, metering, send, speed } = args;
    let mut files = OutputFiles::default();
    files.add_stream(io::stdout(), "standard output");
    metering::check_outputs(files, &metering)?;
    let signals = speed.map(|_| SignalListener::start(false, HangUp::Ends)).transpose()?;
    let files = ReportOutputs::of(&metering.report)?;
    files.check()?;
    let sinks = Sinks::open(&metering.report, &send)?;
    let source = Demo::new(seed);
    let (Some(speed), Some(signals)) = (speed, signals) else {
        return meter(source, seed, &metering, &files, sinks);
    };
    signals.ready();
    let wait = |wait| signals.next(wait).is_none();
    meter(Paced::new(source, Demo::LENGTH, speed, wait), seed, &metering, &files, sinks)
}

fn meter<S: Source>(
    mut source: S,
    seed: u64,
    metering: &MeteringArgs,
    files: &ReportOutputs,
    mut sinks: Sinks,
) -> Result<(), CommandError> {
    // As the agent of a node, so that what each pod pays is exported.
    let mut environment = metering::environment(metering);
    environment.export.by_holder = true;
    let run = metering::meter(
        metering,
        environment,
        &mut source,
        &mut sinks,
        |_| {},
        |_| Ok(metering::work(metering)),
    )?;
    let provenance = Provenance {
        title: format!("demo, seed {seed}"),
        assumptions: vec!["the fleet and its readings are synthetic".to_owned()],
        ..Provenance::default()
    };
    metering::report(metering, files, &source, &run, provenance).and(sinks.finish())
}
