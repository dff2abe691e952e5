//! Configuration of policies, with the files it names: settings and public keys.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use phasemeter_files::{read_file, read_text};
use phasemeter_rules::compile::{Compiler, CompilerProcess};
use phasemeter_rules::host::{Host, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy_dir::{self, MAX_TEXT_BYTES};
use phasemeter_rules::signature::PublicKey;
use serde_json::{Map, Value};
use tracing::warn;

pub use super::open_error::OpenError;

/// Settings by policy name.
pub(super) type SettingsByName = BTreeMap<String, Map<String, Value>>;

/// Configuration of policies.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Whether the default policies are used.
    pub default_policies: bool,
    /// Policy files.
    pub files: Vec<PathBuf>,
    /// A directory of policies.
    pub directory: Option<PathBuf>,
    /// Settings files by policy name.
    pub settings: Vec<(String, PathBuf)>,
    /// Public key files. If there are any, only policies signed with one of them are accepted.
    pub keys: Vec<PathBuf>,
    /// Resource limits of an evaluation.
    pub limits: Limits,
    /// How policies are compiled.
    pub compiler: CompilerProcess,
    /// Whether all are interpreted, as the default policies are.
    pub interpreter: bool,
    /// Whether disallowed imports are replaced with stubs that trap when called.
    pub stub_imports: bool,
    /// Cache of compiled policies, if any.
    pub cache: Option<PathBuf>,
    /// How long the start waits for policies; `None` if until all are loaded.
    pub start_limit: Option<Duration>,
}

impl PolicyConfig {
    /// Whether there are no policies and cannot be any later.
    pub(super) const fn is_empty(&self) -> bool {
        !self.default_policies && self.directory.is_none() && self.files.is_empty()
    }

    /// Reads the settings files.
    pub(super) fn settings(&self) -> Result<SettingsByName, OpenError> {
        self.settings.iter().map(|(name, path)| Ok((name.clone(), settings(path)?))).collect()
    }

    /// Creates a host; without a cache if the directory cannot be used.
    pub(super) fn host(&self, settings: Arc<SettingsByName>) -> Result<Host, OpenError> {
        let keys = self.keys.iter().map(|path| key(path)).collect::<Result<_, _>>()?;
        let host = Host::new(Options {
            limits: self.limits,
            keys,
            settings,
            stub_imports: self.stub_imports,
            interpreter: self.interpreter,
            compiler: Compiler::Subprocess(self.compiler.clone()),
            cache: self.cache.clone(),
        })?;
        if let Some(error) = host.cache_error() {
            warn!("compiled policies are not cached: {error}");
        }
        Ok(host)
    }
}

fn key(path: &Path) -> Result<PublicKey, OpenError> {
    let text = read_text(path, MAX_TEXT_BYTES).map_err(unreadable(path))?;
    let key = text.trim().parse();
    key.map_err(|source| OpenError::Key { path: path.to_owned(), source })
}

fn settings(path: &Path) -> Result<Map<String, Value>, OpenError> {
    let bytes = read_file(path, MAX_TEXT_BYTES).map_err(unreadable(path))?;
    policy_dir::settings(path, &bytes).map_err(OpenError::Settings)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    |source| OpenError::Unreadable { path: path.to_owned(), source }
}
