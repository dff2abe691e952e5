//! Audits the log of a fleet with the binary and its default policies.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fleet::{Fleet, Plan};
use crate::log;

/// Runs `phasemeter audit`.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    /// The binary.
    pub program: &'a Path,
    /// A directory for logs and compiled policies.
    pub dir: &'a Path,
}

/// A fleet could not be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A log cannot be written or the program cannot be started.
    #[error("{}: {source}", path.display())]
    File {
        /// The log or the program.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The program wrote to standard error, or failed.
    #[error("fleet {fleet}: {message}")]
    Rejected {
        /// Its number.
        fleet: u64,
        /// Its standard error.
        message: String,
    },
    /// The report has another format.
    #[error("fleet {fleet}: {source}")]
    Report {
        /// Its number.
        fleet: u64,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Audit<'_> {
    /// Writes the logs of a fleet and returns the report on them.
    pub(crate) fn report(self, fleet: &Fleet) -> Result<Value, AuditError> {
        let logs = self.write_logs(fleet)?;
        let mut command = Command::new(self.program);
        command.env_clear().env("OTEL_RESOURCE_ATTRIBUTES", attributes(fleet));
        command.arg("audit").args(&logs).args(["--format", "json", "--utc-offset=+00:00"]);
        command.args(location(fleet)).stdin(Stdio::null());
        command.arg("--policy-cache").arg(self.dir.join("policies"));
        let failed = |source| AuditError::File { path: self.program.to_owned(), source };
        let output = command.output().map_err(failed)?;
        for log in logs {
            // Later fleets need the space.
            _ = fs::remove_file(log);
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || !message.is_empty() {
            return Err(AuditError::Rejected { fleet: fleet.number, message });
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|source| AuditError::Report { fleet: fleet.number, source })
    }

    fn write_logs(self, fleet: &Fleet) -> Result<Vec<PathBuf>, AuditError> {
        let logs = (0..fleet.instances()).map(|instance| {
            let path = self.dir.join(format!("fleet-{}-{instance}.csv", fleet.number));
            let write = || {
                let mut out = BufWriter::new(File::create(&path)?);
                log::write(fleet, instance, &mut out)?;
                out.flush()
            };
            match write() {
                Ok(()) => Ok(path),
                Err(source) => Err(AuditError::File { path: path.clone(), source }),
            }
        });
        logs.collect()
    }
}

/// The attributes of the experiment.
fn attributes(fleet: &Fleet) -> String {
    let mut attributes = vec![format!("experiment.number={}", fleet.number)];
    if fleet.is_declared {
        attributes.push(format!("phasemeter.workload={}", fleet.workload()));
    }
    if fleet.is_interruptible {
        attributes.push("phasemeter.interruptible=true".to_owned());
    }
    attributes.join(",")
}

/// Options for the price.
fn location(fleet: &Fleet) -> Vec<String> {
    let offer = fleet.offer;
    let own = |plan| vec![format!("--price={:.4}", fleet.price()), format!("--plan={plan}")];
    match fleet.plan {
        Plan::Reserved => own("reserved_1y"),
        Plan::Owned => own("owned"),
        Plan::OnDemand => vec![
            format!("--provider={}", offer.provider),
            format!("--region={}", offer.region),
            format!("--instance-type={}", offer.instance_type),
        ],
    }
}
