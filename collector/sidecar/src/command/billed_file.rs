//! The file with the time until which each GPU is billed, by which a restart can determine what was not.
//!
//! It has what the backend has accepted, so a run that is killed leaves a gap of its size or less than it
//! claims. Must not depend on how GPUs are metered.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use phasemeter_meter::instant::Instant;
use phasemeter_meter::reading::GpuIdentity;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::error::CommandError;
use super::files::ReplacedFile;
use crate::pipeline::{BilledUntil, Finished, Pipeline};

/// The value of `schema`.
const SCHEMA: &str = "phasemeter.billed/0.1";

/// The file.
#[derive(Debug)]
pub(super) struct BilledFile {
    path: PathBuf,
    file: ReplacedFile,
    /// What it has.
    written: BilledUntil,
    has_failed: bool,
}

#[derive(Deserialize, Serialize)]
struct Content {
    schema: String,
    billed_until: BTreeMap<String, String>,
}

impl BilledFile {
    /// Reads a file, which is created later if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let written = match fs::read(path) {
            Ok(text) => parse(&text).ok_or_else(|| CommandError::BilledFile(path.to_owned()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BilledUntil::new(),
            Err(source) => {
                return Err(CommandError::System {
                    what: "cannot read the file of --state",
                    source,
                });
            }
        };
        let (path, file) = (path.to_owned(), ReplacedFile::at(path)?);
        Ok(Self { path, file, written, has_failed: false })
    }

    /// What earlier runs have billed.
    pub(super) const fn billed(&self) -> &BilledUntil {
        &self.written
    }

    /// Writes what the exported sums of a run bill, if the backend has all of them.
    pub(super) fn step(
        &mut self,
        pipeline: &Pipeline<'_>,
        identities: &[GpuIdentity],
        is_delivered: impl FnOnce() -> bool,
    ) {
        let billed = pipeline.billed_until(identities);
        if let Some(billed) = billed.filter(|billed| *billed != self.written)
            && is_delivered()
        {
            self.write(billed);
        }
    }

    /// Writes what a run that has ended bills, if the backend has all of it.
    pub(super) fn finish(mut self, run: &Finished, identities: &[GpuIdentity], is_delivered: bool) {
        if !is_delivered {
            return;
        }
        let mut billed = self.written.clone();
        for (gpu, identity) in run.gpus.iter().zip(identities) {
            if let Some((_, end)) = gpu.meter.span() {
                billed.insert(identity.key().to_owned(), run.wall.wall(end));
            }
        }
        self.write(billed);
    }

    fn write(&mut self, billed: BilledUntil) {
        let instants = billed.iter().map(|(uuid, at)| (uuid.clone(), Instant(*at).to_string()));
        let content = Content { schema: SCHEMA.to_owned(), billed_until: instants.collect() };
        let text = serde_json::to_vec_pretty(&content).unwrap_or_default();
        let failed = self.file.write(&text).is_err();
        if failed && !self.has_failed {
            warn!("{}: cannot be written; a restart reports a longer gap", self.path.display());
        }
        self.has_failed = failed;
        self.written = billed;
    }
}

fn parse(text: &[u8]) -> Option<BilledUntil> {
    let content: Content = serde_json::from_slice(text).ok()?;
    if content.schema != SCHEMA {
        return None;
    }
    let parsed = content.billed_until.into_iter();
    parsed.map(|(uuid, at)| Some((uuid, at.parse::<Instant>().ok()?.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_as_written_or_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("billed.json");
        let mut file = BilledFile::open(&path).unwrap();
        assert!(file.billed().is_empty());
        let Instant(at) = "2026-07-27T00:22:27.000000001Z".parse().unwrap();
        file.write(BilledUntil::from([("GPU-a".to_owned(), at)]));
        assert_eq!(BilledFile::open(&path).unwrap().billed()["GPU-a"], at);
        for text in ["", "{}", r#"{"schema":"phasemeter.billed/0.1","billed_until":{"a":"now"}}"#] {
            fs::write(&path, text).unwrap();
            let error = BilledFile::open(&path).unwrap_err().to_string();
            assert!(error.contains("billed.json: not a file of --state"), "{error}");
        }
    }
}
