//! What earlier runs have claimed: by the file, and by the notes of what they have stored last.

use std::io;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, stored_notes};
use phasemeter_outbox::Disk;
use phasemeter_sources::clock::{Clock, MAX_AHEAD};
use thiserror::Error;
use tracing::warn;

use crate::file::{ClaimsError, NAME, replace};
use crate::format::{Content, InstantFormat, Restored, State};

/// What earlier runs have left.
#[derive(Debug)]
pub(crate) struct Earlier {
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
pub(crate) enum Unusable {
    #[error("damaged, or of another version")]
    Damaged,
    /// If earlier runs have billed a time that has not come, they have billed all time until then.
    #[error("has times up to {0}, ahead of this machine's clock")]
    Ahead(Instant),
}

impl Earlier {
    /// Reads it, before what earlier runs have left is delivered.
    pub(crate) fn read(data: &DataDirectory) -> Result<Self, ClaimsError> {
        let file = match data.files().read(NAME) {
            Ok(text) => Content::parse(&text).map_or(File::Damaged, |it| File::Content(it.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => File::Missing,
            Err(error) => return Err(ClaimsError::Read(error)),
        };
        let notes = stored_notes(data).map_err(ClaimsError::Outbox)?;
        let notes = notes.iter().filter_map(|note| Content::parse(note)).collect();
        Ok(Self { file, notes })
    }

    /// Whether nothing was written yet.
    pub(crate) const fn is_missing(&self) -> bool {
        matches!(self.file, File::Missing)
    }

    /// The instance ID of the runs with this file, if they have one.
    pub(crate) fn instance(&self) -> Option<String> {
        match &self.file {
            File::Content(content) => content.instance().map(str::to_owned),
            File::Missing | File::Damaged => None,
        }
    }

    /// What is claimed, in the time of a run with this wall time, now.
    pub(crate) fn restore(
        &self,
        format: &InstantFormat,
        now: Timestamp,
        wall: WallOffset,
    ) -> Result<Restored, Unusable> {
        let ahead = |it: &Restored| it.newest.map(|it| it.0).filter(|it| it.since(now) > MAX_AHEAD);
        let mut restored = match &self.file {
            File::Content(content) => content.restore(format, wall).ok_or(Unusable::Damaged)?,
            File::Missing => Restored::default(),
            File::Damaged => return Err(Unusable::Damaged),
        };
        if let Some(at) = ahead(&restored) {
            return Err(Unusable::Ahead(Instant(at)));
        }
        let notes = self.notes.iter().filter_map(|note| note.restore(format, wall));
        notes.filter(|it| ahead(it).is_none()).for_each(|note| restored.add(note));
        Ok(restored)
    }
}

/// Writes what notes claim to the file, since they are removed as what earlier runs have left is delivered, by whatever process.
/// `clock`: it shows wall time.
pub fn keep_notes(data: &DataDirectory, clock: Clock, boot_id: Option<String>) {
    if let Err(error) = merge(data, clock, boot_id) {
        let path = data.path().display();
        warn!("{path}: {error}; time of earlier runs can be in a sum and in a gap");
    }
}

fn merge(data: &DataDirectory, clock: Clock, boot_id: Option<String>) -> Result<(), ClaimsError> {
    let earlier = Earlier::read(data)?;
    if earlier.notes.is_empty() {
        return Ok(());
    }
    let format = InstantFormat { clock: Some(clock), boot_id };
    // One that cannot be used is left to the next run that keeps claims.
    let wall = WallOffset::default();
    let restored = earlier.restore(&format, clock.now(), wall);
    let Ok(Restored { until, began, .. }) = restored else { return Ok(()) };
    let state = State { until, began, wall };
    let content = Content::new(earlier.instance(), &state, &format);
    replace(&mut *data.files(), &content.to_json()).map_err(ClaimsError::Write)
}
