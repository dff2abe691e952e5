//! Configuration of policies, with the files it names: settings and public keys.
//!
//! Must not depend on the files that policies are loaded from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use phasemeter_rules::compile::{Compiler, CompilerProcess};
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::host::{Host, HostError, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy_dir;
use phasemeter_rules::signature::{ParsePublicKeyError, PublicKey};
use serde_json::{Map, Value};

use super::sources::SettingsByName;

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
    /// Whether they are interpreted. The default policies then need no compiler.
    pub interpreter: bool,
    /// Whether disallowed imports are replaced with stubs that trap when called.
    pub stub_imports: bool,
    /// Cache of compiled policies.
    pub cache: Cache,
}

/// The cache of compiled policies.
#[derive(Clone, Debug)]
pub enum Cache {
    /// This directory; an error if it cannot be used.
    Given(PathBuf),
    /// The default directory, if it is writable.
    Usual(Option<PathBuf>),
}

/// Why policies cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file or directory cannot be read.
    #[error("{}: cannot be read; check that it exists and is readable", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A settings file is not a JSON object.
    #[error("{0}")]
    Settings(PolicyError),
    /// Settings are for an unknown policy.
    #[error("--policy-settings {name}: no policy has this name; {known}")]
    NoSuchPolicy {
        /// The name.
        name: String,
        /// The known names, for people.
        known: String,
    },
    /// A public key is invalid.
    #[error("{}: {source}", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
        /// The error.
        source: ParsePublicKeyError,
    },
    /// The policy host cannot be started.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl PolicyConfig {
    /// Reads the settings files.
    pub(super) fn settings(&self) -> Result<SettingsByName, OpenError> {
        self.settings.iter().map(|(name, path)| Ok((name.clone(), settings(path)?))).collect()
    }

    /// Creates a host; without a cache if the default cache directory cannot be used.
    pub(super) fn host(&self) -> Result<Host, OpenError> {
        let keys = self.keys.iter().map(|path| key(path)).collect::<Result<_, _>>()?;
        let options = Options {
            limits: self.limits,
            keys,
            stub_imports: self.stub_imports,
            interpreter: self.interpreter,
            compiler: Compiler::Subprocess(self.compiler.clone()),
            cache: None,
        };
        let with =
            |directory: &PathBuf| Options { cache: Some(directory.clone()), ..options.clone() };
        let host = match &self.cache {
            Cache::Given(directory) => Host::new(with(directory)),
            Cache::Usual(Some(directory)) => match Host::new(with(directory)) {
                Err(HostError::Cache { .. }) => Host::new(options),
                host => host,
            },
            Cache::Usual(None) => Host::new(options),
        };
        Ok(host?)
    }
}

fn key(path: &Path) -> Result<PublicKey, OpenError> {
    let text = fs::read_to_string(path).map_err(unreadable(path))?;
    let key = text.trim().parse();
    key.map_err(|source| OpenError::Key { path: path.to_owned(), source })
}

fn settings(path: &Path) -> Result<Map<String, Value>, OpenError> {
    let bytes = fs::read(path).map_err(unreadable(path))?;
    policy_dir::settings(path, &bytes).map_err(OpenError::Settings)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    |source| OpenError::Unreadable { path: path.to_owned(), source }
}
