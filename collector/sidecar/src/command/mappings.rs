//! The mappings in use: those of Phasemeter, then the user's.
//!
//! Must not depend on what is mapped.

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_sources::mapping::{MappingFile, Mappings};

use super::error::CommandError;
use super::live_error::LiveError;

/// Reads the mappings with these files of the user.
pub(super) fn read(files: &[PathBuf]) -> Result<Mappings, CommandError> {
    let invalid = |path: &Path| {
        let path = path.to_owned();
        move |source| LiveError::Mapping { path, source }
    };
    let built_in = Path::new("otel-config/mappings");
    let mut mappings = Mappings::built_in().map_err(invalid(built_in))?;
    for path in files {
        let text = fs::read_to_string(path)
            .map_err(|source| LiveError::MappingFile { path: path.clone(), source })?;
        mappings.replace(MappingFile::parse(&text).map_err(invalid(path))?);
    }
    Ok(mappings)
}
