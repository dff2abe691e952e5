//! A configuration of policies that is valid: where they are read from, with what settings, and by which host.

use std::sync::Arc;

use phasemeter_rules::host::Host;

use super::config::{OpenError, PolicyConfig, SettingsByName};
use super::sources::PolicySources;

/// What is configured.
pub(super) struct Configured {
    pub(super) sources: PolicySources,
    pub(super) settings: Arc<SettingsByName>,
}

/// A configuration that is valid, with its host.
pub struct PolicyChange {
    pub(super) configured: Configured,
    pub(super) host: Host,
}

impl PolicyChange {
    /// A configuration whose files can be read.
    ///
    /// # Errors
    /// Returns an error if a configured file is missing or invalid, or if the policy host cannot be started.
    pub fn new(config: &PolicyConfig) -> Result<Self, OpenError> {
        let settings = Arc::new(config.settings()?);
        let sources = PolicySources {
            default_policies: config.default_policies,
            directory: config.directory.clone(),
            files: config.files.clone(),
        };
        sources.check().map_err(|(path, source)| OpenError::Unreadable { path, source })?;
        let host = config.host(Arc::clone(&settings))?;
        Ok(Self { configured: Configured { sources, settings }, host })
    }
}
