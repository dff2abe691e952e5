//! A file that may become a policy, with what belongs to it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::artifact::SignedArtifact;
use crate::digest::Digest;

/// A file that may become a policy.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its path or another origin, for messages. A later candidate with the same value replaces this one.
    pub file: String,
    /// A component, or a core module with component metadata.
    pub bytes: Cow<'static, [u8]>,
    /// Whether it is part of this program, and so needs no signature.
    pub embedded: bool,
    /// The digest it must have, if it is locked.
    pub pinned: Option<Digest>,
    /// The signature over `bytes`.
    pub signature: Option<Vec<u8>>,
    /// The same policy, compiled elsewhere.
    pub artifact: Option<SignedArtifact>,
    /// The operator's settings beside the file.
    pub settings: Map<String, Json>,
    /// Settings by policy name, which take precedence over `settings`.
    pub settings_by_name: Arc<BTreeMap<String, Map<String, Json>>>,
}

impl Candidate {
    /// A file with no settings, signature or artifact.
    #[must_use]
    pub fn new(file: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            file: file.into(),
            bytes: bytes.into(),
            embedded: false,
            pinned: None,
            signature: None,
            artifact: None,
            settings: Map::new(),
            settings_by_name: Arc::default(),
        }
    }

    /// The settings to use if the policy in it has this name.
    pub(crate) fn settings_of(&self, name: &str) -> &Map<String, Json> {
        self.settings_by_name.get(name).unwrap_or(&self.settings)
    }
}
