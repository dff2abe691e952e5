//! Limits of the work on a schema and on settings, and of what their errors show.

use std::fmt::Display;

use crate::settings::SettingError;

/// The most values that a schema, or settings, may have. Defaults count each time they are filled in.
const MAX_VALUES: usize = 4_096;

/// The most bytes of paths and text of these values.
const MAX_BYTES: usize = 256 << 10;

/// The most errors that are reported.
pub(super) const MAX_ERRORS: usize = 8;

/// The most members of an enum, or known settings, that an error lists.
const MAX_MEMBERS: usize = 8;

/// Bytes of a value that an error quotes.
const MAX_QUOTE: usize = 64;

/// Members of an enum that can be compared for the price of one value.
pub(super) const MEMBERS_PER_VALUE: usize = 64;

/// What remains of the work allowed on one schema, or on one set of settings.
#[derive(Debug)]
pub(super) struct Budget {
    values: usize,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { values: MAX_VALUES, bytes: MAX_BYTES }
    }
}

impl Budget {
    /// Takes this many values with this many bytes of path and text.
    pub(super) fn take(&mut self, values: usize, bytes: usize) -> Result<(), SettingError> {
        let remaining = self.values.checked_sub(values).zip(self.bytes.checked_sub(bytes));
        let (values, bytes) = remaining.ok_or_else(|| {
            let bytes = MAX_BYTES >> 10;
            let limit = format!("{MAX_VALUES} values or {bytes} KiB of paths and text");
            error("", format!("too large: more than {limit}, defaults included"))
        })?;
        *self = Self { values, bytes };
        Ok(())
    }
}

/// The first members of a list, and how many more there are.
pub(super) fn first<T: Display>(members: impl ExactSizeIterator<Item = T>) -> String {
    let more = members.len().saturating_sub(MAX_MEMBERS);
    let first = members.take(MAX_MEMBERS).map(|member| quote(&member.to_string()));
    let mut list = first.collect::<Vec<_>>().join(", ");
    if more > 0 {
        list += &format!(" and {more} more");
    }
    list
}

/// A value in an error, cut after its first bytes.
pub(super) fn quote(value: &str) -> String {
    let cut = value.get(..value.floor_char_boundary(MAX_QUOTE)).unwrap_or_default();
    if cut.len() < value.len() { format!("{cut}…") } else { value.to_owned() }
}

pub(super) fn error(path: &str, message: impl Into<String>) -> SettingError {
    SettingError { path: path.to_owned(), message: message.into() }
}
