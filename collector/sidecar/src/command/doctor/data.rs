//! Whether requests can be kept on disk until they are delivered.

use std::time::Instant;

use phasemeter_doctor::data;
use phasemeter_doctor::findings::{Findings, Topic};
use phasemeter_otlp::delivery::DataError;

use crate::command::data_dir::{self, ExportOptions};
use crate::command::error::CommandError;
use crate::command::optional::Optional;
use phasemeter_cli::DoctorArgs;

/// Opens the directory that a run would open, and closes it again.
pub(super) fn check(args: &DoctorArgs, _: Instant) -> Result<Findings, CommandError> {
    let options = ExportOptions::read(&args.machine.live.export, Optional(true))?;
    let mut findings = Findings::default();
    let named = options.named().cloned();
    match data_dir::open(named.clone()) {
        Ok(Some(directory)) => data::describe(&directory, &mut findings),
        Ok(None) => {
            findings.fact(Topic::Data, "no directory; requests wait in memory");
            findings.note(
                "data directory: what waits for the backend ends with a run; name a --data-dir",
            );
        }
        // In the pod of an agent, that is the agent.
        Err(error @ DataError::Busy(_)) => findings.fact(Topic::Data, format!("in use: {error}")),
        Err(error) => {
            findings.fact(Topic::Data, "cannot be used");
            findings.problem(format!(
                "--data-dir {error}; make it writable for this user, or name another one"
            ));
        }
    }
    Ok(findings)
}
