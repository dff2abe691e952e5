//! What the commands that meter share: readings go through the line, and a report comes out.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::reading::GpuIdentity;
use tracing::warn;

use super::Failure;
use super::outlets::Outlets;
use crate::cli::{Format, MeteringArgs, PriceArgs};
use crate::environment::Environment;
use crate::experiment::{Attributes, ExperimentRequest};
use crate::otlp::OtlpFile;
use crate::pipeline::{Finished, Pipeline, PipelineError, Settings};
use crate::pricing::Pricing;
use crate::report::bar::Bars;
use crate::report::{self, GpuInput, Input, RejectedRow, Report};
use crate::source::Source;

/// What only the source can say of a run.
pub(super) struct Provenance {
    pub(super) title: String,
    pub(super) power_basis: Option<&'static str>,
    pub(super) rejected_rows: Vec<RejectedRow>,
    pub(super) rejected_total: u64,
    pub(super) assumptions: Vec<String>,
}

/// What the environment says. What it says wrong is told.
pub(super) fn environment() -> Environment {
    let environment = Environment::read(|name| std::env::var(name).ok());
    for warning in &environment.warnings {
        warn!("{warning}");
    }
    environment
}

/// Meters all that the source gives, and sends it to the outlets. `step` is called after each
/// reading.
pub(super) fn meter<S: Source>(
    args: &MeteringArgs,
    source: &mut S,
    outlets: &mut Outlets,
    step: impl FnMut(&S),
) -> Result<Finished, Failure> {
    let environment = environment();
    let settings = Settings {
        meter: args.meter.config(),
        pricing: pricing(&args.price),
        host: Attributes::new(),
        export: outlets.outlet().map(|outlet| (environment.export, outlet)),
    };
    let mut pipeline = Pipeline::of_log(settings, request(args, environment.experiment));
    let metered = pipeline.run(source, step);
    metered.and_then(|()| pipeline.finish(source.gpus())).map_err(|error| match error {
        PipelineError::Source(error) => Failure::Source(error),
        PipelineError::Export(error) => outlets.unwritten(error),
    })
}

/// Writes the report of a run to standard output.
pub(super) fn report<S: Source>(
    args: &MeteringArgs,
    source: &S,
    run: &Finished,
    provenance: Provenance,
) -> Result<(), Failure> {
    let input = input(args, source.gpus(), run, provenance);
    write(&input, args.report.format, io::stdout()).map_err(Failure::Output)
}

/// What a report is made from. `identities`: the GPUs of the run, in their places.
pub(super) fn input<'a>(
    args: &MeteringArgs,
    identities: &'a [GpuIdentity],
    run: &'a Finished,
    provenance: Provenance,
) -> Input<'a> {
    let thresholds = args.meter.thresholds;
    let mut assumptions = provenance.assumptions;
    if thresholds != Thresholds::default() {
        assumptions.push(format!("phases begin at {thresholds}, as given"));
    }
    let work = args.experiment.work.iter();
    Input {
        title: provenance.title,
        experiment: report::Experiment {
            id: run.experiment.id.clone(),
            trace_id: run.experiment.context().map(|context| context.trace_id.to_string()),
        },
        thresholds,
        gpus: gpus(identities, run, provenance.power_basis),
        work: work.map(|(unit, count)| (unit.name().to_owned(), *count)).collect(),
        rejected_rows: provenance.rejected_rows,
        rejected_total: provenance.rejected_total,
        assumptions,
    }
}

/// Writes the report.
pub(super) fn write(
    input: &Input<'_>,
    format: Format,
    out: impl Write + IsTerminal,
) -> io::Result<()> {
    match try_write(input, format, out) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn try_write(input: &Input<'_>, format: Format, out: impl Write + IsTerminal) -> io::Result<()> {
    let report = Report::build(input);
    let terminal = out.is_terminal();
    let mut out = BufWriter::new(out);
    match format {
        Format::Json => report::json::write(&report, &mut out)?,
        Format::Text => {
            let no_color = std::env::var_os("NO_COLOR");
            let colour = report::text::wants_colour(terminal, no_color.as_deref());
            let text = report::text::render(&report, &Bars::of(input), colour);
            out.write_all(text.as_bytes())?;
        }
    }
    out.flush()
}

/// What the command line says goes before what the environment says.
pub(super) fn request(args: &MeteringArgs, environment: ExperimentRequest) -> ExperimentRequest {
    let id = args.experiment.id.clone().or_else(|| environment.id.clone());
    let request = ExperimentRequest { id, ..environment };
    match args.experiment.traceparent {
        Some(parent) => request.under(parent),
        None => request,
    }
}

pub(super) fn pricing(args: &PriceArgs) -> Pricing {
    let PriceArgs { price, provider, region, instance_type, plan } = args.clone();
    Pricing { given: price, provider, region, instance_type, plan, book: PriceBook::shipped() }
}

/// OTLP into a file.
pub(super) fn otlp_file(path: &Path) -> Result<OtlpFile<BufWriter<File>>, Failure> {
    Ok(OtlpFile::new(BufWriter::new(create(path)?)))
}

/// Makes a file to write to.
pub(super) fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|source| Failure::Write { path: path.to_owned(), source })
}

/// The GPUs in the order of their indices, where each has one; else as they appeared.
fn gpus<'a>(
    identities: &'a [GpuIdentity],
    run: &'a Finished,
    power_basis: Option<&'static str>,
) -> Vec<GpuInput<'a>> {
    let each = identities.iter().zip(&run.gpus);
    let mut gpus: Vec<_> = each
        .map(|(identity, gpu)| GpuInput {
            identity,
            meter: &gpu.meter,
            price: &gpu.price,
            memory_total: identity.memory_total,
            power_basis,
        })
        .collect();
    if gpus.iter().all(|gpu| gpu.identity.index.is_some()) {
        gpus.sort_by_key(|gpu| gpu.identity.index);
    }
    gpus
}
