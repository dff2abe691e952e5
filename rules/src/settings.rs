//! The settings of one policy as the guest receives them: dotted paths in byte order, each with a
//! scalar value.
//!
//! Only [`Schema::resolve`](crate::schema::Schema::resolve) creates them, so they are valid.

use std::collections::BTreeMap;

/// Validated settings of a policy. The default is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<String, Value>);

/// The value of one setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A Boolean.
    Flag(bool),
    /// A finite number.
    Number(f64),
    /// A string.
    Text(String),
}

impl Settings {
    /// Paths and values, in byte order of the paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(path, value)| (path.as_str(), value))
    }

    pub(crate) fn insert(&mut self, path: String, value: Value) {
        self.0.insert(path, value);
    }
}

/// A problem with one setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "settings" } else { path })]
pub struct SettingError {
    /// Its dotted path; empty for the settings as a whole.
    pub path: String,
    /// The problem, and what is expected.
    pub message: String,
}
