//! Output files.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use phasemeter_otlp::OtlpFile;

use super::error::CommandError;

/// Creates a file.
pub(super) fn create(path: &Path) -> Result<File, CommandError> {
    File::create(path).map_err(|source| CommandError::Write { path: path.to_owned(), source })
}

/// Creates a file for OTLP JSON.
pub(super) fn create_otlp(path: &Path) -> Result<OtlpFile<BufWriter<File>>, CommandError> {
    Ok(OtlpFile::new(BufWriter::new(create(path)?)))
}
