//! The model of all GPUs, as given by the user.

/// A model of all GPUs, given by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenModel {
    /// If the log has none.
    Default(String),
    /// In place of the log's.
    Override(String),
}

impl GivenModel {
    /// The model of a GPU by the user and by its log, and whether it is assumed.
    pub(crate) fn of(given: Option<&Self>, logged: Option<&String>) -> (Option<String>, bool) {
        match (given, logged) {
            (Some(Self::Override(given)), _) => (Some(given.clone()), false),
            (Some(Self::Default(given)), None) => (Some(given.clone()), true),
            (_, logged) => (logged.cloned(), false),
        }
    }
}
