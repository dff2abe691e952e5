//! A file that may become a policy, with what belongs to it.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use phasemeter_terminal::escape::sanitize;
use serde_json::{Map, Value as Json};

use crate::artifact::SignedArtifact;
use crate::digest::Digest;
use crate::embedded::DefaultPolicy;
use crate::error::PolicyError;
use crate::settings::SettingError;

/// A file that may become a policy.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its path or another origin, for messages. A later candidate with the same value replaces this one.
    pub file: String,
    /// A component, or a core module with component metadata.
    pub bytes: Cow<'static, [u8]>,
    /// The digest of its bytes if it is part of this program. Then it needs no approval, and is not read
    /// unless it must be compiled.
    pub embedded: Option<Digest>,
    /// What approves it.
    pub approval: Approval,
    /// The same policy, compiled elsewhere.
    pub artifact: Option<SignedArtifact>,
    /// The settings that the operator gives it, which need no approval.
    pub settings: Map<String, Json>,
    /// The settings file beside it, used instead of `settings`.
    pub settings_file: Option<SettingsFile>,
}

/// What approves a policy and its settings: a lock file and signatures, if there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// Its entry of the lock file; `None` if there is no lock file.
    pub locked: Option<Locked>,
    /// The signature of the policy.
    pub signature: Option<Vec<u8>>,
    /// The signature of its settings file.
    pub settings_signature: Option<Vec<u8>>,
}

/// The digests that a lock file lists for a policy; `None` if it does not list a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    /// Of the policy.
    pub policy: Option<Digest>,
    /// Of its settings file.
    pub settings: Option<Digest>,
}

/// A settings file beside a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its name without a directory, which its signature includes.
    pub name: String,
    /// Its unparsed content.
    pub bytes: Vec<u8>,
}

impl Candidate {
    /// A file with no settings, approval or artifact.
    #[must_use]
    pub fn new(file: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            file: file.into(),
            bytes: bytes.into(),
            embedded: None,
            approval: Approval::default(),
            artifact: None,
            settings: Map::new(),
            settings_file: None,
        }
    }
}

impl From<&DefaultPolicy> for Candidate {
    fn from(policy: &DefaultPolicy) -> Self {
        let digest = policy.digest.parse().unwrap_or_else(|_| Digest::of(policy.component));
        let candidate = Self::new(format!("{} (default)", policy.name), policy.component);
        Self { embedded: Some(digest), ..candidate }
    }
}

/// A candidate that is read when its turn comes, so that only one is in memory at a time.
pub struct CandidateSource {
    file: String,
    read: Box<dyn FnOnce() -> Result<Candidate, Box<Unreadable>> + Send>,
}

/// A candidate that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The cause.
    pub error: PolicyError,
    /// What approves the file now.
    pub approval: Approval,
}

impl CandidateSource {
    /// The candidate of a file.
    pub fn new(
        file: String,
        read: impl FnOnce() -> Result<Candidate, Box<Unreadable>> + Send + 'static,
    ) -> Self {
        Self { file, read: Box::new(read) }
    }

    /// [`Candidate::file`].
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Reads it.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn read(self) -> Result<Candidate, Box<Unreadable>> {
        (self.read)()
    }
}

impl From<Candidate> for CandidateSource {
    fn from(candidate: Candidate) -> Self {
        Self::new(candidate.file.clone(), || Ok(candidate))
    }
}

impl fmt::Debug for CandidateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CandidateSource({})", self.file)
    }
}

/// Parses the text of a settings file. Errors name `path`.
///
/// # Errors
/// Returns an error if the text is not a JSON object.
pub fn parse_settings(path: &Path, json: &[u8]) -> Result<Map<String, Json>, PolicyError> {
    serde_json::from_slice(json).map_err(|error| {
        // The file may not be meant to be printed: an error of its data has a part of it.
        let problem = match error.is_data() {
            true => "expected a JSON object".to_owned(),
            false => sanitize(&error.to_string(), 100),
        };
        let message = format!("{}: {problem}", path.display());
        PolicyError::Settings(vec![SettingError { path: String::new(), message }])
    })
}
