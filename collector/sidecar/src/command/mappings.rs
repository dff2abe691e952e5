//! The mappings in use: those of Phasemeter, then the user's.

use std::path::{Path, PathBuf};

use phasemeter_files::read_text;
use phasemeter_meter::holders::Holders;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::mapping::{MappingFile, Mappings, ReadingBuffer};
use tracing::warn;

use super::error::CommandError;
use super::listing::listed;
use super::live_error::LiveError;
use phasemeter_cli::MAX_LABELS;

/// Maximum size of a file of mappings: those of Phasemeter have a few KiB.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of GPUs, or of senders, that notes name.
const MAX_NAMES: usize = 4;

/// Notes on what is not as it should be in values of GPUs: those of which only the shares of pods are known, holders
/// without an account or with a share that cannot be read, and points that were refused.
pub(super) fn notes(buffer: &ReadingBuffer) -> Vec<String> {
    let refused: Vec<_> = buffer.refused().collect();
    let rest = refused.get(MAX_NAMES..).unwrap_or_default();
    let named = refused.iter().take(MAX_NAMES);
    let named = named.map(|(count, refusal)| match count {
        1 => format!("1 point refused: {refusal}"),
        _ => format!("{count} points refused: {refusal}"),
    });
    let more = (!rest.is_empty()).then(|| {
        let points: u64 = rest.iter().map(|(count, _)| count).sum();
        format!("{points} points of {} more senders refused for the same reason", rest.len())
    });
    let over = over(buffer.holders_without_account());
    let gpus = added_up(buffer.added_up()).into_iter().chain(over);
    let gpus = gpus.chain(unreadable(buffer.unreadable_shares()));
    gpus.chain(named).chain(more).collect()
}

/// A note on GPUs that more holders had than have accounts.
fn over<'a>(gpus: impl Iterator<Item = (&'a GpuIdentity, usize)>) -> Option<String> {
    let names: Vec<String> = gpus.map(|(gpu, count)| format!("{} ({count})", gpu.name)).collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.into_iter(), MAX_NAMES);
        let max = Holders::MAX_GRANTS;
        format!(
            "{names}: held by more than {max} at once; what the others, the last in order of names, were \
             granted and used is nobody's"
        )
    })
}

/// A note on GPUs of which the use of a holder could not be read.
fn unreadable<'a>(gpus: impl Iterator<Item = (&'a GpuIdentity, usize)>) -> Option<String> {
    let names: Vec<String> = gpus.map(|(gpu, count)| format!("{} ({count})", gpu.name)).collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.into_iter(), MAX_NAMES);
        format!(
            "{names}: values of holders that cannot be read; what these used meanwhile is nobody's"
        )
    })
}

/// A note on GPUs of which only the shares of pods are known.
fn added_up<'a>(gpus: impl Iterator<Item = &'a GpuIdentity>) -> Option<String> {
    let names: Vec<String> = gpus.map(|gpu| gpu.name.clone()).collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.into_iter(), MAX_NAMES);
        format!(
            "{names}: no value of the whole GPU, so those of its pods are added up, utilization to at most \
             100% and memory to at most the total"
        )
    })
}

/// Reads the mappings with these files of the user, and the labels of pods that these keys name.
pub(super) fn read(files: &[PathBuf], labels: &[String]) -> Result<Mappings, CommandError> {
    let invalid = |path: &Path| {
        let path = path.to_owned();
        move |source| LiveError::Mapping { path, source }
    };
    let built_in = Path::new("otel-config/mappings");
    let mut mappings = Mappings::built_in().map_err(invalid(built_in))?;
    for path in files {
        let text = read_text(path, MAX_BYTES)
            .map_err(|source| LiveError::MappingFile { path: path.clone(), source })?;
        mappings.replace(MappingFile::parse(&text).map_err(invalid(path))?);
    }
    if labels.len() > MAX_LABELS {
        warn!("--label: the first {MAX_LABELS} labels are read; name fewer");
    }
    mappings.add_pod_labels(labels.get(..MAX_LABELS).unwrap_or(labels));
    Ok(mappings)
}
