//! Audits the log of a situation with the binary.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::log;
use crate::situation::Situation;

/// Runs `phasemeter audit` with the default policies.
#[derive(Clone, Debug)]
pub struct Audit<'a> {
    /// The binary.
    pub program: &'a Path,
    /// A directory for logs.
    pub dir: &'a Path,
    /// The model of all GPUs, in place of those of the situations.
    pub model: Option<&'a str>,
}

/// A situation could not be audited.
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
    #[error("{situation}: {message}")]
    Rejected {
        /// The situation.
        situation: String,
        /// Its standard error.
        message: String,
    },
    /// The report is not JSON.
    #[error("{situation}: {source}")]
    Report {
        /// The situation.
        situation: String,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Audit<'_> {
    /// Writes the logs of a situation and returns the report on them, as JSON and as text.
    ///
    /// # Errors
    /// Returns an error if the program rejects them.
    pub fn report(&self, situation: &Situation) -> Result<(Value, String), AuditError> {
        let logs = self.write_logs(situation)?;
        let attributes: Vec<_> =
            situation.attributes().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let failed = |source| AuditError::File { path: self.program.to_owned(), source };
        let run = |format: &str| {
            let mut command = Command::new(self.program);
            command.env_clear().env("OTEL_RESOURCE_ATTRIBUTES", attributes.join(","));
            command.arg("audit").args(&logs).args(["--format", format]).stdin(Stdio::null());
            let options = situation.options.iter();
            // It replaces the model of the situation.
            for (name, value) in
                options.filter(|(name, _)| self.model.is_none() || !name.starts_with("gpu-model"))
            {
                command.arg(format!("--{name}={value}"));
            }
            command.args(self.model.map(|model| format!("--gpu-model-override={model}")));
            let output = command.output().map_err(failed)?;
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() || !message.is_empty() {
                return Err(AuditError::Rejected { situation: situation.id(), message });
            }
            Ok(output.stdout)
        };
        let (json, text) = (run("json")?, run("text")?);
        for log in &logs {
            // Later situations need the space.
            _ = fs::remove_file(log);
        }
        let report = serde_json::from_slice(&json)
            .map_err(|source| AuditError::Report { situation: situation.id(), source })?;
        Ok((report, String::from_utf8_lossy(&text).into_owned()))
    }

    fn write_logs(&self, situation: &Situation) -> Result<Vec<OsString>, AuditError> {
        let name = situation.id().replace('/', "-");
        let logs = situation.nodes().into_iter().map(|node| {
            let path = self.dir.join(format!("{name}{node}.csv"));
            let write = || {
                let mut out = BufWriter::new(File::create(&path)?);
                log::write(situation, node, &mut out)?;
                out.flush()
            };
            match write() {
                Ok(()) => Ok(path.into_os_string()),
                Err(source) => Err(AuditError::File { path: path.clone(), source }),
            }
        });
        logs.collect()
    }
}
