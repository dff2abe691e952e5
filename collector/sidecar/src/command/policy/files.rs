//! Files of a policy project.

use std::path::Path;

use phasemeter_files::read_file;
use phasemeter_rules::policy_dir::MAX_FILE_BYTES;

use super::error::PolicyCommandError;
use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, PolicyCommandError> {
    read_file(path, MAX_FILE_BYTES)
        .map_err(|source| PolicyCommandError::Read { path: path.to_owned(), source })
}

/// Replaces a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    ReplacedFile::public(path).write(bytes)
}
