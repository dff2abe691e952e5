//! What an operator decides about policies, and what of it cannot be.
//!
//! It reads the files that are about policies, and must not know those that are policies.

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

/// What an operator decides about policies.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Whether those that ship are in use.
    pub default_policies: bool,
    /// Policies, by file.
    pub files: Vec<PathBuf>,
    /// A folder of policies.
    pub folder: Option<PathBuf>,
    /// Files of settings, by the name of the policy they are for.
    pub settings: Vec<(String, PathBuf)>,
    /// Files with a public key each. With any, only signed policies are used.
    pub keys: Vec<PathBuf>,
    /// What a run may use up.
    pub limits: Limits,
    /// How policies are compiled.
    pub compiler: CompilerProcess,
    /// Whether functions that no policy gets are replaced by ones that trap.
    pub stub_imports: bool,
    /// Where compiled policies are kept.
    pub cache: Cache,
}

/// Where compiled policies are kept.
#[derive(Clone, Debug)]
pub enum Cache {
    /// Where the operator said, or not at all.
    Given(PathBuf),
    /// In the usual place, where that can be written to.
    Usual(Option<PathBuf>),
}

/// Why policies cannot be used as the operator decided.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was named is not there.
    #[error("{}: cannot be read; check that it is there and readable", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It is no JSON object.
    #[error("{0}")]
    Settings(PolicyError),
    /// Settings are for a policy that there is not.
    #[error("--policy-settings {name}: no policy has that name; there {known}")]
    NoSuchPolicy {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// It is no key.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParsePublicKeyError,
    },
    /// No policy can be run.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl PolicyConfig {
    /// The settings there are.
    pub(super) fn settings(&self) -> Result<SettingsByName, OpenError> {
        self.settings.iter().map(|(name, path)| Ok((name.clone(), settings(path)?))).collect()
    }

    /// A host with its cache, or without one where the usual place is no place for it.
    pub(super) fn host(&self) -> Result<Host, OpenError> {
        let keys = self.keys.iter().map(|path| key(path)).collect::<Result<_, _>>()?;
        let options = Options {
            limits: self.limits,
            keys,
            stub_imports: self.stub_imports,
            interpreter: false,
            compiler: Compiler::Subprocess(self.compiler.clone()),
            cache: None,
        };
        let with = |folder: &PathBuf| Options { cache: Some(folder.clone()), ..options.clone() };
        let host = match &self.cache {
            Cache::Given(folder) => Host::new(with(folder)),
            Cache::Usual(Some(folder)) => match Host::new(with(folder)) {
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
