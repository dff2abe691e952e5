//! What metering commands share: metering a source and writing the report.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use phasemeter_engine::pipeline::{Finished, Pipeline, PipelineError, Settings};
use phasemeter_engine::policies::{PolicyManager, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing, book_file};
use phasemeter_environment::location::Location;
use phasemeter_environment::variables::Environment;
use phasemeter_logs::Source;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::experiment::{Attributes, ExperimentRequest};
use phasemeter_report::bar::Bars;
use phasemeter_report::text::{self, Explain, TextOptions};
use phasemeter_report::{Input, Provenance, Report};
use phasemeter_rules::window::Window;
use terminal_size::{Width, terminal_size_of};
use tracing::warn;

#[cfg(feature = "full")]
use super::alerts;
use super::dump::Dump;
use super::error::CommandError;
use super::output_files::OutputFiles;
use super::policies;
use super::report_outputs::ReportOutputs;
use super::sinks::Sinks;
use crate::standard_error;
use crate::variables::variable;
use phasemeter_cli::{ColorChoice, Format, MeteringArgs, PriceArgs, ReportArgs};

/// Reads the environment and logs its warnings. Options take precedence.
pub(super) fn environment(args: &MeteringArgs) -> Environment {
    let mut environment = Environment::read(variable);
    environment.export.metrics = args.report.metrics.unwrap_or(environment.export.metrics);
    environment.experiment.attributes.extend(args.declared.attributes());
    for warning in &environment.warnings {
        warn!("{warning}; {}", warning.consequence());
    }
    environment
}

/// Checks the output files of a command against its inputs and each other. `files` has the inputs
/// and streams of the command itself.
pub(super) fn check_outputs(
    mut files: OutputFiles,
    args: &MeteringArgs,
) -> Result<(), CommandError> {
    policies::inputs(&args.policies).for_each(|path| files.add_input(&path));
    #[cfg(feature = "full")]
    alerts::files(&args.alerts).for_each(|path| files.add_input(&path));
    args.price.prices.iter().for_each(|path| files.add_input(path));
    files.add_stream(standard_error::stream(), "standard error");
    let outputs = [
        ("--report", args.report.report_file.as_deref()),
        ("--html", args.report.html_file.as_deref()),
        ("--otlp-file", args.report.otlp_file.as_deref()),
        ("--dump-windows", args.policies.dump_windows.as_deref()),
    ];
    let outputs = outputs.into_iter().filter_map(|(option, path)| Some((option, path?)));
    outputs.into_iter().try_for_each(|(option, path)| files.add_output(option, path))
}

/// Meters all readings of a source and sends telemetry to the sinks. Calls `step` after each
/// reading, and `work` with the metered span, for the work done in it.
pub(super) fn meter<S: Source>(
    args: &MeteringArgs,
    environment: Environment,
    source: &mut S,
    sinks: &mut Sinks,
    step: impl FnMut(&S),
    work: impl FnOnce(Option<(Timestamp, Timestamp)>) -> Result<BTreeMap<String, u64>, CommandError>,
) -> Result<Finished, CommandError> {
    let manager = policies::open(&args.policies, policies::Evaluations::Once)?;
    let settings = Settings {
        meter: args.meter.config(),
        #[cfg(feature = "full")]
        alerts: alerts::select(&args.alerts)?,
        #[cfg(not(feature = "full"))]
        alerts: phasemeter_engine::alert_rules::AlertRules::default(),
        pricing: pricing(&args.price, &environment.experiment.attributes, manager.clone())?,
        work: BTreeMap::new(),
        export: sinks.request_sink().map(|sink| (environment.export, sink)),
    };
    let mut pipeline = Pipeline::log(settings, request(args, environment.experiment));
    let metered = pipeline.run(source, step);
    let metered = metered.and_then(|()| pipeline.finish_gpus(source.gpus()));
    if metered.is_ok() {
        pipeline.set_work(work(pipeline.span())?);
    }
    let mut dumped = Ok(());
    let evaluate = |window: Option<Window>| {
        if let (Some(path), Some(window)) = (&args.policies.dump_windows, &window) {
            dumped = Dump::to(path).write(window);
        }
        manager.map(|manager| manager.evaluate(window.as_ref())).unwrap_or_default()
    };
    let finished = metered.and_then(|()| pipeline.finish(source.gpus(), evaluate));
    let run = finished.map_err(|error| match error {
        PipelineError::Source(error) => CommandError::Source(error),
        PipelineError::Export(error) => sinks.write_error(error),
    })?;
    dumped.map(|()| run)
}

/// Writes the report of a run to its files and standard output.
pub(super) fn report<S: Source>(
    args: &MeteringArgs,
    files: &ReportOutputs,
    source: &S,
    run: &Finished,
    provenance: Provenance,
) -> Result<(), CommandError> {
    let input = Input::of(run, source.gpus(), args.meter.thresholds, provenance);
    let written = files.write(&input);
    let out = io::stdout();
    let printed = match write(&input, &args.report, columns(&out), BufWriter::new(out)) {
        // A closed pipe is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(CommandError::Output),
    };
    written.and(printed)
}

/// Writes the report, for a terminal of so many columns if there is one.
pub(super) fn write(
    input: &Input<'_>,
    args: &ReportArgs,
    terminal: Option<usize>,
    mut out: impl Write,
) -> io::Result<()> {
    let report = Report::build(input);
    match args.format {
        Format::Json => phasemeter_report::json::write(&report, &mut out)?,
        Format::Text => {
            let text = text::render(&report, &Bars::of(input), &text_options(args, terminal));
            out.write_all(text.as_bytes())?;
        }
    }
    out.flush()
}

/// The columns of a terminal; `None` if this is none.
pub(super) fn columns(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let is_terminal = stream.is_terminal();
    let size = || terminal_size_of(stream).map(|(Width(columns), _)| usize::from(columns));
    is_terminal.then(|| size().unwrap_or_default())
}

fn text_options(args: &ReportArgs, terminal: Option<usize>) -> TextOptions {
    let no_color = std::env::var_os("NO_COLOR");
    TextOptions {
        color: match args.color {
            ColorChoice::Auto => text::use_color(terminal.is_some(), no_color.as_deref()),
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        },
        terminal,
        all_gpus: args.all_gpus,
        explain: match &args.explain {
            None => Explain::None,
            Some(None) => Explain::All,
            Some(Some(code)) => Explain::Code(code.clone()),
        },
    }
}

/// The experiment: options take precedence over the environment. An unnamed workload is named by
/// this executable, as by any SDK.
pub(super) fn request(args: &MeteringArgs, environment: ExperimentRequest) -> ExperimentRequest {
    let id = args.experiment.id.clone().or_else(|| environment.id.clone());
    let executable = std::env::current_exe().ok();
    let executable = executable.as_deref().and_then(Path::file_name);
    let executable = executable.map(|name| name.to_string_lossy().into_owned());
    let request = ExperimentRequest { id, executable, ..environment };
    match args.experiment.traceparent {
        Some(parent) => request.under(parent),
        None => request,
    }
}

/// Work done, by unit; the last value of a unit wins.
pub(super) fn work(args: &MeteringArgs) -> BTreeMap<String, u64> {
    args.experiment.work.iter().map(|(unit, count)| (unit.name().to_owned(), *count)).collect()
}

/// Pricing by options, the resource of the workload, policies and the price book.
pub(super) fn pricing(
    args: &PriceArgs,
    resource: &Attributes,
    policies: Option<Arc<PolicyManager>>,
) -> Result<Pricing, CommandError> {
    let book = book_file::load(&args.prices)?;
    Ok(Pricing::new(price_options(args, resource), Quotes::of(policies), book))
}

/// The options of prices of GPUs with this resource.
pub(super) fn price_options(args: &PriceArgs, resource: &Attributes) -> PriceOptions {
    let PriceArgs { price: given, provider, region, instance_type, plan, .. } = args.clone();
    let location = Location { provider, region, instance_type };
    let default_location = Location::from_resource(resource).lacking_in(&location);
    let attributes = resource.clone();
    PriceOptions { given, location, default_location, plan, attributes }
}
