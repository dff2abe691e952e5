//! `phasemeter compare`: whether a change made the same work cheaper.

use phasemeter_bill::compare::{Comparison, Options, json, text};
use phasemeter_bill::error::BillError;

use super::bill::{open, print, rendered};
use super::error::CommandError;
use phasemeter_cli::CompareArgs;

/// Compares two reports.
pub(super) fn run(args: &CompareArgs) -> Result<(), CommandError> {
    let names = [&args.before, &args.after].map(|path| path.display().to_string());
    let names = [names[0].as_str(), names[1].as_str()];
    let (before, _) = open(&args.before, names[0]).map_err(BillError::from)?;
    let (after, _) = open(&args.after, names[1]).map_err(BillError::from)?;
    let options = Options { unit: args.unit.clone(), level: args.level, ..Options::default() };
    let comparison = Comparison::of(names, [&before, &after], &options, &args.done)?;
    print(&rendered(
        args.format,
        || text::render(&comparison, names, args.level),
        |out| json::write(&comparison, names, &options, out),
    )?)
}
