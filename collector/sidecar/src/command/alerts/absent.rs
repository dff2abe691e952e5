//! Without the feature there are no rules.

use std::path::PathBuf;

use phasemeter_engine::alert_rules::AlertRules;

use crate::cli::AlertArgs;

/// Why rules cannot be used: never.
#[derive(Debug, thiserror::Error)]
pub enum AlertsError {}

impl AlertsError {
    pub(super) const fn is_unreadable(&self) -> bool {
        match *self {}
    }

    pub(super) const fn is_setting(&self) -> bool {
        match *self {}
    }
}

pub(super) fn select(_: &AlertArgs) -> Result<AlertRules, AlertsError> {
    Ok(AlertRules::default())
}

pub(super) fn files(_: &AlertArgs) -> impl Iterator<Item = PathBuf> {
    std::iter::empty()
}
