//! The settings of one policy, as it gets them: dotted paths in order, each with a plain value.
//!
//! Made by [`Schema::settle`](crate::schema::Schema::settle) alone, so they have been checked.

use std::collections::BTreeMap;

/// The settings of a policy. Empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<String, Value>);

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// Finite.
    Number(f64),
    /// Any text.
    Text(String),
}

impl Settings {
    /// Each path with its value, in byte order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(path, value)| (path.as_str(), value))
    }

    pub(crate) fn set(&mut self, path: String, value: Value) {
        self.0.insert(path, value);
    }
}

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "the settings" } else { path })]
pub struct SettingError {
    /// Its dotted path; empty for the settings as a whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub message: String,
}
