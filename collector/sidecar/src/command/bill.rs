//! `phasemeter bill`: who pays for the GPU time of any number of reports.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use phasemeter_bill::bill::{Bill, Biller, Realized};
use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::focus::{CsvRows, FocusTotals, FocusWriter, RowSink};
use phasemeter_bill::invoice::Invoice;
use phasemeter_bill::read::{Digest, read};
use phasemeter_bill::report::Report;
use phasemeter_bill::trial::{Record, hexadecimal};
use phasemeter_bill::{bill_json, bill_text};
use phasemeter_logs::log::decode;
use phasemeter_savings::trial::Outcome;
use phasemeter_terminal::escape::clean;
use tracing::warn;

use super::error::CommandError;
use super::files::ReplacedFile;
use super::output_files::OutputFiles;
use super::report_files::MAX_REPORT;
use super::{report_files, trial_records};
use phasemeter_cli::{BillArgs, BillFormat, Format};

/// Adds up the reports and writes the bill.
pub(super) fn run(args: &BillArgs) -> Result<(), CommandError> {
    let reports = report_files::expand(&args.reports).map_err(BillError::from)?;
    let output =
        args.output.as_deref().map(|path| open_output(args, &reports, path)).transpose()?;
    let names: Vec<String> = reports.iter().map(|path| path.display().to_string()).collect();
    let mut biller = Biller::new(args.by.clone(), args.idle).sharing(args.share_idle);
    let records =
        args.trials.records.as_deref().map_or_else(|| Ok(Vec::new()), trial_records::records)?;
    let (mut billed, mut realized) = (Vec::new(), Vec::new());
    for (path, name) in reports.iter().zip(&names) {
        match open(path, name) {
            Ok((report, digest)) => {
                if biller.add(name, &report, digest) {
                    realized.extend(realized_in(name, digest, &records));
                    billed.push((path, name));
                }
            }
            Err(error) if args.skip_invalid => biller.skip(&error.to_string()),
            Err(error) if reports.len() > 1 => return Err(BillError::ReadOneOf(error).into()),
            Err(error) => return Err(BillError::from(error).into()),
        }
    }
    let mut bill = biller.finish(&names)?;
    bill.realized = realized;
    let invoice = args.invoice.as_ref().map(|path| {
        let file = path.display().to_string();
        let unreadable = |source| ReadError::Unreadable { file: file.clone(), source };
        Invoice::read(&file, File::open(path).map_err(unreadable)?, &bill.by)
    });
    let invoice = invoice.transpose()?.map(|invoice| invoice.reconcile(&bill));
    let format = match args.format {
        BillFormat::Text => Format::Text,
        BillFormat::Json => Format::Json,
        BillFormat::Focus => return write_focus(args, &bill, &billed, output.as_ref()),
    };
    let bill = rendered(
        format,
        || bill_text::render(&bill, invoice.as_ref()),
        |out| bill_json::write(&bill, invoice.as_ref(), out),
    )?;
    match output {
        Some(file) => file.write(&bill),
        None => print(&bill),
    }
}

/// What trials have saved whose report after the change is this one.
fn realized_in(name: &str, digest: Digest, records: &[(String, Record)]) -> Vec<Realized> {
    let begin = hexadecimal(&digest);
    let own = records.iter().map(|(_, record)| record).filter(|record| {
        record.result == Outcome::Saves && record.after.sha256.starts_with(&begin)
    });
    let realized = own.map(|record| Realized {
        code: record.recommendation.code.clone(),
        report: name.to_owned(),
        saved: record.realized(),
    });
    realized.collect()
}

/// Checks the output file before any report is read.
fn open_output(
    args: &BillArgs,
    reports: &[PathBuf],
    path: &Path,
) -> Result<ReplacedFile, CommandError> {
    if is_parquet(path) && args.format != BillFormat::Focus {
        return Err(CommandError::ParquetFormat(path.to_owned()));
    }
    let mut files = OutputFiles::default();
    reports.iter().chain(&args.invoice).for_each(|input| files.add_input(input));
    files.add_output("--output", path)?;
    ReplacedFile::at(path)
}

/// Whether its name is one of a Parquet file.
fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// Writes a row for each period of the bill: as Parquet if the name of the output is one of it, else as
/// CSV. A closed pipe is not an error.
fn write_focus(
    args: &BillArgs,
    bill: &Bill,
    billed: &[(&PathBuf, &String)],
    output: Option<&ReplacedFile>,
) -> Result<(), CommandError> {
    let Some(file) = output else {
        let rows = CsvRows::new(BufWriter::new(io::stdout().lock()), &args.focus());
        return match write_rows(args, bill, billed, rows, CommandError::Output) {
            Err(CommandError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        };
    };
    file.write_with(|out| {
        if args.output.as_deref().is_some_and(is_parquet) {
            let rows = phasemeter_bill::focus::ParquetRows::new(out, &args.focus());
            return write_rows(args, bill, billed, rows, |error| file.error(error));
        }
        let rows = CsvRows::new(BufWriter::new(out), &args.focus());
        write_rows(args, bill, billed, rows, |error| file.error(error))
    })
}

/// Reads the reports of the bill again, and writes their rows.
fn write_rows<R: RowSink>(
    args: &BillArgs,
    bill: &Bill,
    billed: &[(&PathBuf, &String)],
    rows: io::Result<R>,
    failed: impl Fn(io::Error) -> CommandError,
) -> Result<(), CommandError> {
    let mut writer = FocusWriter::new(rows.map_err(&failed)?, args.focus());
    for (path, name) in billed {
        let (report, _) = open(path, name).map_err(BillError::from)?;
        writer.write(&report).map_err(&failed)?;
    }
    let FocusTotals { cost, unpriced, dropped_tags } = writer.finish().map_err(&failed)?;
    bill.notes.iter().for_each(|note| warn!("{}", clean(note)));
    if unpriced > 0 {
        warn!("{unpriced} GPUs have no price, and no rows");
    }
    if !dropped_tags.is_empty() {
        let names: Vec<_> = dropped_tags.iter().map(|name| clean(name)).collect();
        warn!(
            "attributes left out, since another has their key as a tag: {}; rename them",
            names.join(", ")
        );
    }
    if cost != bill.sum.cost {
        return Err(BillError::Changed.into());
    }
    Ok(())
}

/// Reads a report: UTF-8 or UTF-16, compressed or not, as logs are.
pub(super) fn open(path: &Path, name: &str) -> Result<(Report, Digest), ReadError> {
    let unreadable = |source| ReadError::Unreadable { file: name.to_owned(), source };
    let text = File::open(path).and_then(|file| decode(Box::new(file))).map_err(unreadable)?;
    read(name, text.take(MAX_REPORT))
}

/// Text, in which nothing of a report can move the cursor, or JSON.
pub(super) fn rendered(
    format: Format,
    text: impl FnOnce() -> String,
    json: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<Vec<u8>, CommandError> {
    let mut output = Vec::new();
    match format {
        Format::Text => text().lines().for_each(|line| {
            output.extend(clean(line).bytes());
            output.push(b'\n');
        }),
        Format::Json => json(&mut output).map_err(CommandError::Output)?,
    }
    Ok(output)
}

/// Writes to standard output. A closed pipe is not an error.
pub(super) fn print(output: &[u8]) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(output).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CommandError::Output),
    }
}
