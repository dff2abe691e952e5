//! `phasemeter page`: a JSON report as a page for a browser.

use std::fs::File;
use std::io::Read;

use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::read::read;
use phasemeter_logs::log::decode;
use phasemeter_report::page;

use super::bill::print;
use super::error::CommandError;
use super::files::ReplacedFile;
use super::output_files::OutputFiles;
use super::report_files::MAX_REPORT;
use phasemeter_cli::PageArgs;

/// Reads the report and writes its page.
pub(super) fn run(args: &PageArgs) -> Result<(), CommandError> {
    let mut files = OutputFiles::default();
    files.add_input(&args.report);
    let output = args.html_file.as_deref().map(|path| {
        files.add_output("--html", path)?;
        ReplacedFile::at(path)
    });
    let output = output.transpose()?;
    let name = args.report.display().to_string();
    let unreadable = |source| BillError::from(ReadError::Unreadable { file: name.clone(), source });
    let mut json = Vec::new();
    let text = File::open(&args.report).and_then(|file| decode(Box::new(file)));
    text.and_then(|text| text.take(MAX_REPORT).read_to_end(&mut json)).map_err(unreadable)?;
    // Only what has the fields of a report can be drawn.
    read(&name, json.as_slice()).map_err(BillError::from)?;
    let page = page::of(&json);
    output.map_or_else(|| print(&page), |file| file.write(&page))
}
