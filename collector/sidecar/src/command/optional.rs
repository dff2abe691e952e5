//! What a command does not depend on.

use tracing::warn;

use super::error::CommandError;

/// Whether what fails is a warning: beside a command, which does not depend on it.
#[derive(Clone, Copy)]
pub(super) struct Optional(pub(super) bool);

impl Optional {
    /// A result; `None` if this machine refuses it in its present state, and that is a warning. Errors of
    /// the command line, and of the files that it names, are errors.
    pub(super) fn result<T>(
        self,
        result: Result<T, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        match result {
            Err(error) if self.0 && error.is_of_system() => {
                warn!("{}; the command runs anyway", error.in_one_line());
                Ok(None)
            }
            result => result.map(Some),
        }
    }
}
