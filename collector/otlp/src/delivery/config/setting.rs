//! An environment variable that is set, and its conversion to a type.

use std::fmt::{self, Display, Formatter};

use super::error::{ConfigError, EndpointError};
use crate::excerpt::excerpt;

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) variable: String,
    pub(super) value: String,
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.variable, self.value)
    }
}

impl Setting {
    pub(super) fn endpoint(self, reason: EndpointError) -> ConfigError {
        ConfigError::Endpoint { variable: self.variable, reason }
    }

    /// The value of a keyword, in any case.
    pub(super) fn choose<T, const N: usize>(
        self,
        words: [(&str, T); N],
        wanted: &'static str,
    ) -> Result<T, ConfigError> {
        let found = words.into_iter().find(|(word, _)| self.value.eq_ignore_ascii_case(word));
        found.map(|(_, meaning)| meaning).ok_or_else(|| self.refuse(wanted))
    }

    pub(super) fn refuse(self, wanted: &'static str) -> ConfigError {
        let value = excerpt(&self.value);
        ConfigError::Value { variable: self.variable, value, wanted }
    }
}
