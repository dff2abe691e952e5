//! `phasemeter bill`: who pays for the GPU time of any number of reports.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use phasemeter_bill::bill::{Bill, Biller};
use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::focus::{FocusTotals, FocusWriter, TagFormat};
use phasemeter_bill::invoice::Invoice;
use phasemeter_bill::read::{Digest, read};
use phasemeter_bill::report::Report;
use phasemeter_bill::{bill_json, bill_text};
use phasemeter_rules::text::clean;
use tracing::warn;

use super::error::CommandError;
use crate::cli::{BillArgs, BillFormat, Format};

/// Adds up the reports and writes the bill.
pub(super) fn run(args: &BillArgs) -> Result<(), CommandError> {
    let names: Vec<String> = args.reports.iter().map(|path| path.display().to_string()).collect();
    let mut biller = Biller::new(args.by.clone(), args.idle.into());
    let mut billed = Vec::new();
    for (path, name) in args.reports.iter().zip(&names) {
        match open(path, name) {
            Ok((report, digest)) => {
                if biller.add(name, &report, digest) {
                    billed.push((path, name));
                }
            }
            Err(error) if args.skip_invalid => biller.skip(&error.to_string()),
            Err(error) => return Err(BillError::from(error).into()),
        }
    }
    let bill = biller.finish(&names)?;
    let invoice = args.invoice.as_ref().map(|path| {
        let file = path.display().to_string();
        let unreadable = |source| BillError::UnreadableInvoice { file: file.clone(), source };
        Invoice::read(&file, File::open(path).map_err(unreadable)?, &bill.by)
    });
    let invoice = invoice.transpose()?.map(|invoice| invoice.reconcile(&bill));
    let format = match args.format {
        BillFormat::Text => Format::Text,
        BillFormat::Json => Format::Json,
        BillFormat::Focus => return write_focus(&bill, &billed, args.tags.into()),
    };
    print(
        format,
        || bill_text::render(&bill, invoice.as_ref()),
        |out| bill_json::write(&bill, invoice.as_ref(), out),
    )
}

/// Reads the reports of the bill again, and writes a row for each of their periods.
fn write_focus(
    bill: &Bill,
    billed: &[(&PathBuf, &String)],
    tags: TagFormat,
) -> Result<(), CommandError> {
    let out = BufWriter::new(io::stdout().lock());
    let mut writer = FocusWriter::new(out, tags).map_err(CommandError::Output)?;
    for (path, name) in billed {
        let (report, _) = open(path, name).map_err(BillError::from)?;
        match writer.write(&report) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(CommandError::Output)?,
        }
    }
    let FocusTotals { cost, unpriced, dropped_tags } =
        writer.finish().map_err(CommandError::Output)?;
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

/// Reads a report.
pub(super) fn open(path: &Path, name: &str) -> Result<(Report, Digest), ReadError> {
    let unreadable = |source| ReadError::Unreadable { file: name.to_owned(), source };
    read(name, File::open(path).map_err(unreadable)?)
}

/// Writes text, in which nothing of a report can move the cursor, or JSON. A closed pipe is not an error.
pub(super) fn print(
    format: Format,
    text: impl FnOnce() -> String,
    json: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), CommandError> {
    let mut output = Vec::new();
    match format {
        Format::Text => text().lines().for_each(|line| {
            output.extend(clean(line).bytes());
            output.push(b'\n');
        }),
        Format::Json => json(&mut output).map_err(CommandError::Output)?,
    }
    let mut out = io::stdout().lock();
    match out.write_all(&output).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(CommandError::Output),
    }
}
