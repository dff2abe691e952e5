//! The folder of a policy: how its own tools build it, and where they leave it.
//!
//! One file says it, `policy.json`, so that nothing here knows a language. What it says works
//! without Phasemeter too.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::{PolicyFailure, desk};
use crate::command::Failure;

/// What the file looks like.
pub(super) const LIKE: &str = r#"{"build": "make", "wasm": "build/NAME.wasm"}"#;

/// A folder with a policy.
pub(super) struct Project {
    folder: PathBuf,
    plan: Plan,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// A line for the shell, run in the folder.
    build: String,
    /// What that makes, from the folder on.
    wasm: PathBuf,
}

impl Project {
    /// Reads what the folder says.
    pub(super) fn open(folder: &Path) -> Result<Self, PolicyFailure> {
        let path = folder.join("policy.json");
        let plan = serde_json::from_slice(&desk::read(&path)?)
            .map_err(|source| PolicyFailure::Project { path, source })?;
        Ok(Self { folder: folder.to_owned(), plan })
    }

    /// The policy, once it was built.
    pub(super) fn wasm(&self) -> PathBuf {
        self.folder.join(&self.plan.wasm)
    }

    /// Builds it. What the tools say is the author's to read.
    pub(super) fn build(&self) -> Result<(), Failure> {
        let command = &self.plan.build;
        let unstarted = |source| Failure::Command { command: command.clone(), source };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(&self.folder);
        let status = shell.status().map_err(unstarted)?;
        if status.success() {
            Ok(())
        } else {
            Err(PolicyFailure::Build { command: command.clone(), status }.into())
        }
    }
}
