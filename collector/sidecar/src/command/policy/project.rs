//! A policy project: a directory with a `policy.json` that states how to build it and where the
//! component is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use phasemeter_terminal::escape::clean;
use serde::Deserialize;

use super::error::PolicyCommandError;
use super::files;
use crate::command::error::CommandError;
use crate::standard_error;

/// A policy project.
pub(super) struct Project {
    dir: PathBuf,
    config: ProjectConfig,
}

/// `policy.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectConfig {
    /// Shell command, run in the directory.
    build: String,
    /// Path of the component, relative to the directory.
    wasm: PathBuf,
}

impl Project {
    /// Reads the project of a directory.
    pub(super) fn open(dir: &Path) -> Result<Self, PolicyCommandError> {
        let path = dir.join("policy.json");
        let config = serde_json::from_slice(&files::read(&path)?)
            .map_err(|source| PolicyCommandError::Project { path, source })?;
        Ok(Self { dir: dir.to_owned(), config })
    }

    /// The path of the built component.
    ///
    /// # Errors
    /// Returns an error if it has not been built.
    pub(super) fn component(&self) -> Result<PathBuf, PolicyCommandError> {
        let path = self.dir.join(&self.config.wasm);
        if path.exists() {
            Ok(path)
        } else {
            Err(PolicyCommandError::NotBuilt { dir: self.dir.clone(), path })
        }
    }

    /// Builds it, after printing the command: anyone may have written it. The output of the tools is
    /// not captured.
    pub(super) fn build(&self) -> Result<(), CommandError> {
        let command = &self.config.build;
        let cannot_run = |source| CommandError::Command { command: command.clone(), source };
        standard_error::write(format!("running: {}\n", clean(command)).as_bytes());
        // Before what the command writes.
        let _ = standard_error::flush(Duration::from_secs(1), || false);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(&self.dir);
        let status = shell.status().map_err(cannot_run)?;
        if status.success() {
            Ok(())
        } else {
            Err(PolicyCommandError::Build { command: command.clone(), status }.into())
        }
    }
}

/// The component of a policy: the built component of a project if `policy` is a directory, else
/// `policy` itself.
pub(super) fn component_of(policy: &Path) -> Result<PathBuf, PolicyCommandError> {
    if policy.is_dir() { Project::open(policy)?.component() } else { Ok(policy.to_owned()) }
}
