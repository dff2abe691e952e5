//! The mappings in use: those of Phasemeter, then the user's.
//!
//! Must not depend on which metrics are mapped.

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::mapping::{MappingFile, Mappings};

use super::error::CommandError;
use super::live_error::LiveError;

/// Maximum number of GPUs that a note names.
const MAX_NAMES: usize = 4;

/// A note on GPUs of which only the shares of pods are known.
pub(super) fn added_up<'a>(gpus: impl Iterator<Item = &'a GpuIdentity>) -> Option<String> {
    let names: Vec<&str> = gpus.map(|gpu| gpu.name.as_str()).collect();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = names.get(..MAX_NAMES).unwrap_or(&names).join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "{listed}{more}: no value of the whole GPU, so those of its pods are added up, utilization to at most \
             100% and memory to at most the total"
        )
    })
}

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
