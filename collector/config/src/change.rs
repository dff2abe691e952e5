//! What a newer file changes.

use std::fmt::{self, Display, Formatter};

use crate::configuration::Configuration;

/// A key to which two files give different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its line in the newer file; `None` if that lacks it.
    pub line: Option<usize>,
    /// The key.
    pub key: String,
    /// Its option; `None` if it is a key of OpenTelemetry.
    pub option: Option<&'static str>,
}

impl Change {
    /// The keys of OpenTelemetry with other values, by the variables that they are.
    pub(crate) fn of_variables<'a>(
        before: &'a Configuration,
        after: &'a Configuration,
    ) -> impl Iterator<Item = Self> + 'a {
        let [old, new] = [before, after].map(Configuration::settings);
        let changed = new.iter().filter(|(name, setting)| {
            old.get(*name).is_none_or(|before| before.value != setting.value)
        });
        let removed = old.iter().filter(|(name, _)| !new.contains_key(*name));
        let with_line = changed.map(|(_, setting)| (Some(setting.line), &setting.key));
        let all = with_line.chain(removed.map(|(_, setting)| (None, &setting.key)));
        all.map(|(line, key)| Self { line, key: key.clone(), option: None })
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "{line}: ")?;
        }
        f.write_str(&self.key)
    }
}
