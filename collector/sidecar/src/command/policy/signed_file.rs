//! A file to sign or to verify, and what it is used as.

use std::ffi::OsStr;
use std::path::PathBuf;

use phasemeter_rules::artifact::is_artifact;
use phasemeter_rules::policy_dir;
use phasemeter_rules::signature::Use;
use phasemeter_rules::wasm_info::WasmInfo;

use super::error::PolicyCommandError;
use super::files;

/// A file that is what its use requires.
pub(super) struct SignedFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    kind: Kind,
}

enum Kind {
    Policy,
    /// With the name of the file.
    Settings(String),
    MachineCode,
}

impl SignedFile {
    /// Reads a file: settings if its name ends in `.json`, machine code if that is requested, else a
    /// policy.
    ///
    /// # Errors
    /// Returns an error if it is something else: a signature of a policy must not approve machine code.
    pub(super) fn read(path: PathBuf, machine_code: bool) -> Result<Self, PolicyCommandError> {
        let bytes = files::read(&path)?;
        let rejected =
            |error| PolicyCommandError::Rejected { file: path.display().to_string(), error };
        let name = path.file_name().and_then(OsStr::to_str);
        let kind = if machine_code {
            if !is_artifact(&bytes) {
                return Err(PolicyCommandError::NotMachineCode(path));
            }
            Kind::MachineCode
        } else if let Some(name) = name.filter(|name| name.ends_with(".json")) {
            policy_dir::settings(&path, &bytes).map_err(rejected)?;
            Kind::Settings(name.to_owned())
        } else if is_artifact(&bytes) {
            return Err(PolicyCommandError::MachineCode(path));
        } else {
            WasmInfo::parse(&bytes).map_err(|error| rejected(error.into()))?;
            Kind::Policy
        };
        Ok(Self { path, bytes, kind })
    }

    /// What it is used as.
    pub(super) fn used_as(&self) -> Use<'_> {
        match &self.kind {
            Kind::Policy => Use::Policy,
            Kind::Settings(name) => Use::Settings(name),
            Kind::MachineCode => Use::MachineCode,
        }
    }
}
