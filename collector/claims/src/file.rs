//! The file of claims in the data directory, replaced on a thread of its own, since a disk may hang.

use std::fmt::Display;
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use phasemeter_otlp::delivery::DataDirectory;
use phasemeter_otlp::experiment::{TraceId, uuid};
use phasemeter_outbox::Disk;
use thiserror::Error;
use tracing::warn;

use crate::format::{Content, InstantFormat, State};

/// The name of the file.
pub const NAME: &str = "claims.json";

/// That of one that cannot be used.
const ASIDE: &str = "claims.json.unreadable";

/// How long the thread waits at a time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Claims cannot be kept.
#[derive(Debug, Error)]
pub enum ClaimsError {
    /// The file cannot be read.
    #[error("cannot read the claims of earlier runs: {0}")]
    Read(io::Error),
    /// What earlier runs have stored cannot be read.
    #[error("cannot read the outbox: {0}")]
    Outbox(io::Error),
    /// The file cannot be written.
    #[error("{NAME}: cannot be written: {0}")]
    Write(io::Error),
    /// Nothing writes it.
    #[error("cannot keep claims: {0}")]
    Start(io::Error),
}

/// The file.
#[derive(Debug)]
pub(crate) struct ClaimsFile {
    disk: Box<dyn Disk + Send>,
    path: String,
    texts: Sender<(u64, Vec<u8>)>,
    /// The number of the text that was written last.
    written: Arc<AtomicU64>,
    /// The number of the last text, and what it was made from.
    last: u64,
    state: Option<State>,
    /// The instance ID of all runs with this file, if they have one.
    instance: Option<String>,
}

/// What writes one text after the other.
#[derive(Debug)]
pub struct Writing {
    disk: Box<dyn Disk + Send>,
    path: String,
    texts: Receiver<(u64, Vec<u8>)>,
    written: Arc<AtomicU64>,
    has_failed: bool,
}

impl ClaimsFile {
    /// The file in this directory, which is created later if it does not exist, and is written by what `start` gets. `instance`:
    /// that of earlier runs, if they have one.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn open(
        data: &DataDirectory,
        instance: Option<String>,
        start: impl FnOnce(Writing) -> io::Result<()>,
    ) -> Result<Self, ClaimsError> {
        let mut disk = data.files();
        check(&mut *disk).map_err(ClaimsError::Write)?;
        let path = data.path().join(NAME).display().to_string();
        let (texts, received) = mpsc::channel();
        let written = Arc::<AtomicU64>::default();
        let writing = Writing {
            disk: data.files(),
            path: path.clone(),
            texts: received,
            written: Arc::clone(&written),
            has_failed: false,
        };
        start(writing).map_err(ClaimsError::Start)?;
        Ok(Self { disk, path, texts, written, last: 0, state: None, instance })
    }

    /// The instance ID, which is kept from now on.
    pub(crate) fn instance(&mut self) -> String {
        let random = || uuid(*TraceId::random().as_bytes(), 4);
        self.instance.get_or_insert_with(random).clone()
    }

    /// Keeps a file that cannot be used under another name.
    pub(crate) fn set_aside(&mut self, problem: impl Display) {
        let path = &self.path;
        let kept = match self.disk.rename(NAME, ASIDE) {
            Ok(()) => format!("it is kept as {ASIDE}"),
            Err(error) => format!("it is replaced, since it cannot be renamed: {error}"),
        };
        warn!("{path}: {problem}; {kept}; what an earlier run has billed is not known");
    }

    /// Replaces the contents, if they are others. Returns whether it has these, or will: not while others are being written.
    pub(crate) fn write(&mut self, state: State, format: &InstantFormat) -> bool {
        if self.state.as_ref() == Some(&state) {
            return true;
        }
        if !self.is_written() {
            return false;
        }
        let text = Content::new(self.instance.clone(), &state, format).to_json();
        self.last += 1;
        self.state = Some(state);
        // Without its thread, nothing is kept, which was logged.
        let _ = self.texts.send((self.last, text));
        true
    }

    /// Whether a write of this state would change something besides times.
    pub(crate) fn is_new(&self, state: &State) -> bool {
        let times = |state: &State| (state.until.len(), state.began);
        self.state.as_ref().is_none_or(|last| times(last) != times(state))
    }

    /// Whether the last text is written.
    pub(crate) fn is_written(&self) -> bool {
        self.written.load(Ordering::Acquire) >= self.last
    }
}

impl Writing {
    /// Writes on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn on_thread(mut self) -> io::Result<()> {
        let thread = thread::Builder::new().name("claims".to_owned());
        thread.spawn(move || while self.turn(PATIENCE) {})?;
        Ok(())
    }

    /// Writes the next text, if there is one in time. Returns whether there may be more.
    pub fn turn(&mut self, patience: Duration) -> bool {
        let (number, text) = match self.texts.recv_timeout(patience) {
            Ok(text) => text,
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let failed = replace(&mut *self.disk, &text).err();
        if let Some(error) = failed.as_ref().filter(|_| !self.has_failed) {
            warn!(
                "{}: {error}; after a kill, time can be in no sum and no gap, or in both",
                self.path
            );
        }
        self.has_failed = failed.is_some();
        self.written.store(number, Ordering::Release);
        true
    }
}

/// The name of the new file until it is complete.
fn beside() -> String {
    format!(".{NAME}.{}.tmp", process::id())
}

/// Checks that files can be made, without changing any.
fn check(disk: &mut dyn Disk) -> io::Result<()> {
    create(disk)?;
    remove(disk)
}

fn create(disk: &mut dyn Disk) -> io::Result<()> {
    // Left by a process that had the same ID and was killed.
    match remove(disk) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => disk.create(&beside()),
    }
}

/// Removes the new file for good: names that a loss of power mixes up must not make a part of one the file.
fn remove(disk: &mut dyn Disk) -> io::Result<()> {
    disk.remove(&beside())?;
    disk.sync_directory()
}

/// Replaces the contents: after a loss of power, too, the file has these or those before.
pub(crate) fn replace(disk: &mut dyn Disk, contents: &[u8]) -> io::Result<()> {
    let beside = beside();
    let replaced = create(disk)
        .and_then(|()| disk.write_at(&beside, 0, contents))
        .and_then(|()| disk.sync(&beside))
        .and_then(|()| disk.rename(&beside, NAME))
        .and_then(|()| disk.sync_directory());
    if replaced.is_err() {
        let _ = remove(disk);
    }
    replaced
}
