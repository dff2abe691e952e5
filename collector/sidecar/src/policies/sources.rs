//! The shelf: the files that policies are made of.
//!
//! First those that ship, then the folder in byte order, then the files in the order they are
//! named; of two policies of one name the later is used. This room must not know what becomes of
//! the files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use phasemeter_rules::generation::Rejection;
use phasemeter_rules::host::Candidate;
use phasemeter_rules::policy_dir;
use serde_json::{Map, Value};

use super::default_policies;

/// Settings by the name of the policy that they are for.
pub(super) type SettingsByName = BTreeMap<String, Map<String, Value>>;

/// Where policies come from.
#[derive(Clone, Debug)]
pub(super) struct PolicySources {
    /// Whether those that ship are in use.
    pub(super) default_policies: bool,
    /// A folder of policies.
    pub(super) folder: Option<PathBuf>,
    /// Policies that are named one by one.
    pub(super) files: Vec<PathBuf>,
    /// What they are told, whichever of these they come from.
    pub(super) settings: Arc<SettingsByName>,
}

impl PolicySources {
    /// Whether there is nothing on it, and never will be.
    pub(super) const fn is_empty(&self) -> bool {
        !self.default_policies && self.folder.is_none() && self.files.is_empty()
    }

    /// All that stands on it now.
    ///
    /// # Errors
    /// Where the folder cannot be read: what it held is then not known, and must stay in use.
    pub(super) fn candidates(&self) -> Result<Vec<Result<Candidate, Rejection>>, Rejection> {
        let mut all: Vec<_> = Vec::new();
        if self.default_policies {
            all.extend(default_policies::candidates().map(Ok));
        }
        if let Some(folder) = &self.folder {
            all.extend(policy_dir::read(folder)?);
        }
        all.extend(self.files.iter().map(|file| policy_dir::candidate(file)));
        for candidate in all.iter_mut().flatten() {
            candidate.settings_by_name = Arc::clone(&self.settings);
        }
        Ok(all)
    }

    /// Whether what the operator named is there.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub(super) fn check(&self) -> Result<(), (PathBuf, io::Error)> {
        for file in &self.files {
            File::open(file).map_err(|source| (file.clone(), source))?;
        }
        if let Some(folder) = &self.folder {
            fs::read_dir(folder).map_err(|source| (folder.clone(), source))?;
        }
        Ok(())
    }
}
