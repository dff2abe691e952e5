//! The sources of policies: default policies, a directory and files.
//!
//! Default policies come first, then the directory in byte order, then files as given; of two policies
//! with the same name the later one is used.

use std::io;
use std::path::PathBuf;

use phasemeter_rules::embedded::DEFAULT_POLICIES;
use phasemeter_rules::generation::Rejection;
use phasemeter_rules::host::{Candidate, CandidateSource};
use phasemeter_rules::policy_dir;

/// The sources of policies.
#[derive(Clone, Debug)]
pub(super) struct PolicySources {
    /// Whether the default policies are used.
    pub(super) default_policies: bool,
    /// A directory of policies.
    pub(super) directory: Option<PathBuf>,
    /// Policy files.
    pub(super) files: Vec<PathBuf>,
}

impl PolicySources {
    /// All candidates, in loading order.
    ///
    /// # Errors
    /// Returns an error if the directory exists and cannot be read; its policies are then unknown and
    /// must stay active.
    pub(super) fn candidates(&self) -> Result<Vec<CandidateSource>, Rejection> {
        let mut all: Vec<_> = Vec::new();
        if self.default_policies {
            all.extend(DEFAULT_POLICIES.iter().map(|it| Candidate::from(it).into()));
        }
        if let Some(directory) = &self.directory {
            all.extend(policy_dir::read(directory)?);
        }
        all.extend(self.files.iter().map(|file| policy_dir::source(file)));
        Ok(all)
    }

    /// A warning if another user owns the directory, or a file in it.
    pub(super) fn owner_warning(&self) -> Option<String> {
        let directory = self.directory.as_ref()?;
        let owner = policy_dir::foreign_owners(directory).ok()?.into_iter().next()?;
        Some(format!(
            "{}: files are owned by user {owner}, which can change what runs; use policies.lock \
             or --policy-key, or change the owner",
            directory.display()
        ))
    }

    /// Checks that the configured files and directory can be opened.
    ///
    /// # Errors
    /// Returns the first that cannot be opened.
    pub(super) fn check(&self) -> Result<(), (PathBuf, io::Error)> {
        for file in &self.files {
            policy_dir::check_file(file).map_err(|source| (file.clone(), source))?;
        }
        if let Some(directory) = &self.directory {
            policy_dir::check_dir(directory).map_err(|source| (directory.clone(), source))?;
        }
        Ok(())
    }
}
