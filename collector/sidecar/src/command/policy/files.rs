//! Files of a policy project.

use std::fs;
use std::path::Path;

use super::error::PolicyCommandError;
use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, PolicyCommandError> {
    fs::read(path).map_err(|source| PolicyCommandError::Read { path: path.to_owned(), source })
}

/// Replaces a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    ReplacedFile::public(path).write(bytes)
}
