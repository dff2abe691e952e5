//! The files that a report is also written to: JSON, and a page made from it.

use phasemeter_report::{Input, Report, json, page};

use super::error::CommandError;
use super::files::ReplacedFile;
use phasemeter_cli::ReportArgs;

/// The files of a report.
#[derive(Clone, Debug)]
pub(super) struct ReportOutputs {
    pub(super) json: Option<ReplacedFile>,
    pub(super) page: Option<ReplacedFile>,
}

impl ReportOutputs {
    /// Rejects only what can never be such a file.
    pub(super) fn of(args: &ReportArgs) -> Result<Self, CommandError> {
        let ReportArgs { report_file, html_file, .. } = args;
        let [json, page] = [report_file, html_file]
            .map(|path| path.as_deref().map(ReplacedFile::unchecked).transpose());
        Ok(Self { json: json?, page: page? })
    }

    /// Checks that they can be written now, without changing them.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        self.json.iter().chain(&self.page).try_for_each(ReplacedFile::check)
    }

    /// Writes them. One that cannot be written does not keep the other from it.
    pub(super) fn write(&self, input: &Input<'_>) -> Result<(), CommandError> {
        if self.json.is_none() && self.page.is_none() {
            return Ok(());
        }
        let report = encode(input)?;
        let json = self.json.as_ref().map_or(Ok(()), |file| file.write(&report));
        let page = self.page.as_ref().map_or(Ok(()), |file| file.write(&page::of(&report)));
        json.and(page)
    }
}

/// A report as JSON.
pub(super) fn encode(input: &Input<'_>) -> Result<Vec<u8>, CommandError> {
    let mut report = Vec::new();
    json::write(&Report::build(input), &mut report).map_err(CommandError::Output)?;
    Ok(report)
}
