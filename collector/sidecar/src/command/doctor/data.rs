//! Whether requests can be kept on disk until they are delivered.

use std::time::Instant;

use phasemeter_doctor::data;
use phasemeter_doctor::findings::{Findings, Topic};
use phasemeter_otlp::delivery::DataDirectory;

use crate::command::data_dir::{self, ExportOptions};
use crate::command::error::CommandError;
use crate::command::optional::Optional;
use phasemeter_cli::DoctorArgs;

/// Looks at the directory that a run would open.
pub(super) fn check(args: &DoctorArgs, _: Instant) -> Result<Findings, CommandError> {
    let options = ExportOptions::read(&args.machine.live.export, Optional(true))?;
    let mut findings = Findings::default();
    let named = options.named().cloned();
    let alone = named.is_some();
    let usable = || data_dir::usual().into_iter().find(|path| data::refusal(path).is_none());
    let Some(path) = named.or_else(usable) else {
        findings.fact(Topic::Data, "no directory; requests wait in memory");
        findings
            .note("data directory: what waits for the backend ends with a run; name a --data-dir");
        return Ok(findings);
    };
    match (DataDirectory::look(&path, alone), data::refusal(&path)) {
        // In the pod of an agent, that is the agent.
        (Err(error), _) => findings.fact(Topic::Data, format!("in use: {error}")),
        (_, Some(error)) => {
            findings.fact(Topic::Data, "cannot be used");
            findings.problem(format!(
                "--data-dir {}: {error}; make it writable for this user, or name another one",
                path.display()
            ));
        }
        (Ok(directory), None) => data::describe(&directory, &mut findings),
    }
    Ok(findings)
}
