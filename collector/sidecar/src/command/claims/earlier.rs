//! What earlier runs have claimed: by the file, and by the notes of what they have stored last.

use std::io;
use std::path::PathBuf;

use phasemeter_claims::{Content, InstantFormat, Restored, State};
use phasemeter_environment::host;
use phasemeter_files::read_file;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, stored_notes};
use phasemeter_sources::clock::{Clock, MAX_AHEAD};
use thiserror::Error;
use tracing::warn;

use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;

/// The maximum size of the file.
const MAX_BYTES: u64 = 256 << 20;

/// What earlier runs have left.
#[derive(Debug)]
pub(super) struct Earlier {
    file: File,
    notes: Vec<Content>,
}

#[derive(Debug)]
enum File {
    Missing,
    Content(Box<Content>),
    Damaged,
}

/// The file cannot be used: it is not known what earlier runs have claimed.
#[derive(Clone, Copy, Debug, Error)]
pub(super) enum Unusable {
    #[error("damaged, or of another version")]
    Damaged,
    /// If earlier runs have billed a time that has not come, they have billed all time until then.
    #[error("has times up to {0}, ahead of this machine's clock")]
    Ahead(Instant),
}

impl Earlier {
    /// Reads it, before what earlier runs have left is delivered.
    pub(super) fn read(data: &DataDirectory) -> Result<Self, CommandError> {
        let file = match read_file(&path(data), MAX_BYTES) {
            Ok(text) => Content::parse(&text).map_or(File::Damaged, |it| File::Content(it.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => File::Missing,
            Err(source) => {
                let what = "cannot read the claims of earlier runs";
                return Err(CommandError::System { what, source });
            }
        };
        let notes = stored_notes(data).map_err(CommandError::system("cannot read the outbox"))?;
        let notes = notes.iter().filter_map(|note| Content::parse(note)).collect();
        Ok(Self { file, notes })
    }

    /// Whether there is no file.
    pub(super) const fn is_missing(&self) -> bool {
        matches!(self.file, File::Missing)
    }

    /// The instance ID of the runs with this file, if they have one.
    pub(super) fn instance(&self) -> Option<String> {
        match &self.file {
            File::Content(content) => content.instance().map(str::to_owned),
            File::Missing | File::Damaged => None,
        }
    }

    /// What is claimed, in the time of a run that begins now.
    pub(super) fn restore(
        &self,
        format: &InstantFormat,
        now: Timestamp,
    ) -> Result<Restored, Unusable> {
        let ahead = |it: &Restored| it.newest.map(|it| it.0).filter(|it| it.since(now) > MAX_AHEAD);
        let mut restored = match &self.file {
            File::Content(content) => content.restore(format).ok_or(Unusable::Damaged)?,
            File::Missing => Restored::default(),
            File::Damaged => return Err(Unusable::Damaged),
        };
        if let Some(at) = ahead(&restored) {
            return Err(Unusable::Ahead(Instant(at)));
        }
        let notes = self.notes.iter().filter_map(|note| note.restore(format));
        notes.filter(|it| ahead(it).is_none()).for_each(|note| restored.add(note));
        Ok(restored)
    }
}

/// Where the file is.
pub(super) fn path(data: &DataDirectory) -> PathBuf {
    data.path().join("claims.json")
}

/// Writes what notes claim to the file, since they are removed as what earlier runs have left is delivered, by whatever process.
pub(in crate::command) fn keep_notes(data: &DataDirectory) {
    if let Err(error) = merge(data) {
        let (path, error) = (data.path().display(), error.in_one_line());
        warn!("{path}: {error}; time of earlier runs can be in a sum and in a gap");
    }
}

fn merge(data: &DataDirectory) -> Result<(), CommandError> {
    let earlier = Earlier::read(data)?;
    let clock = Clock::start();
    let format = InstantFormat { clock: Some(clock), boot_id: host::boot_id() };
    if earlier.notes.is_empty() {
        return Ok(());
    }
    // One that cannot be used is left to the next run that keeps claims.
    let restored = earlier.restore(&format, clock.now());
    let Ok(Restored { until, began, .. }) = restored else { return Ok(()) };
    let state = State { until, began, wall: WallOffset::default() };
    let content = Content::new(earlier.instance(), &state, &format);
    ReplacedFile::at(&path(data))?.write(&content.to_json())
}
