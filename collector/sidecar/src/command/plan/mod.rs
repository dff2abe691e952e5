//! `phasemeter plan`: turns options, prices and reports into questions, and writes the results.

mod batching;
mod capacity;
mod commitment;
mod memory;
mod own;
mod price_lookup;
mod select;
mod sharing;
mod spot;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use phasemeter_plan::worksheet::Worksheet;
use phasemeter_report::text::use_color;

use self::price_lookup::PriceLookup;
use super::bill;
use super::error::CommandError;
use phasemeter_cli::{Format, PlanCommand};
use phasemeter_plan_report::{Measured, PlanPrice, PlanReport, json, text};

/// Solves a question and writes the result.
pub(super) fn run(command: PlanCommand) -> Result<(), CommandError> {
    let mut prices = PriceLookup::today();
    let (question, format, worksheet) = match command {
        PlanCommand::Memory(args) => {
            ("memory", args.output.format, memory::request(&args)?.compute()?.worksheet())
        }
        PlanCommand::Capacity(args) => {
            let format = args.output.format;
            ("capacity", format, capacity::request(args, &mut prices)?.compute()?.worksheet())
        }
        PlanCommand::Commitment(args) => {
            let format = args.output.format;
            ("commitment", format, commitment::request(*args, &mut prices)?.compare()?.worksheet())
        }
        PlanCommand::Own(args) => {
            let request = own::request(&args, &mut prices)?;
            ("own", args.output.format, request.compute()?.worksheet())
        }
        PlanCommand::Spot(args) => {
            let request = spot::request(&args, &mut prices)?;
            ("spot", args.output.format, request.compute()?.worksheet())
        }
        PlanCommand::Sharing(args) => {
            let format = args.output.format;
            ("sharing", format, sharing::request(args, &mut prices)?.compute()?.worksheet())
        }
        PlanCommand::Batching(args) => {
            ("batching", args.output.format, batching::request(&args)?.compute()?.worksheet())
        }
        PlanCommand::Select(args) => {
            let format = args.output.format;
            ("select", format, select::request(args, &mut prices)?.compute()?.worksheet())
        }
    };
    report(question, worksheet, prices.used(), format)
}

/// Writes a result to standard output. A closed pipe is not an error.
pub(super) fn report(
    question: &'static str,
    worksheet: Worksheet,
    prices: Vec<PlanPrice>,
    format: Format,
) -> Result<(), CommandError> {
    let report = PlanReport { question, worksheet, prices };
    match write(&report, format, io::stdout()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

fn write(report: &PlanReport, format: Format, mut out: impl Write + IsTerminal) -> io::Result<()> {
    match format {
        Format::Json => json::write(report, &mut out)?,
        Format::Text => {
            let no_color = std::env::var_os("NO_COLOR");
            let color = use_color(out.is_terminal(), no_color.as_deref());
            out.write_all(text::render(report, color).as_bytes())?;
        }
    }
    out.flush()
}

/// The report of `--from`, if given.
fn measured(from: Option<&Path>) -> Result<Option<Measured>, CommandError> {
    let Some(path) = from else { return Ok(None) };
    let (report, _) = bill::open(path, &path.display().to_string())?;
    Ok(Some(Measured::of(&report)))
}

/// The error of a report that lacks a value that a question needs.
fn lacks(from: Option<&Path>, what: &'static str, fix: &'static str) -> CommandError {
    CommandError::ReportLacks { path: from.map(Path::to_owned).unwrap_or_default(), what, fix }
}
