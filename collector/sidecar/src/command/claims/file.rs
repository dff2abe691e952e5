//! The file of claims in the data directory, replaced on a thread of its own, since a disk may hang.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant as Time};

use phasemeter_claims::{Content, InstantFormat, State};
use phasemeter_otlp::experiment::{TraceId, uuid};
use tracing::warn;

use super::earlier::Unusable;
use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;

/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);

/// The file.
#[derive(Debug)]
pub(super) struct ClaimsFile {
    path: PathBuf,
    texts: Sender<(u64, Vec<u8>)>,
    /// The number of the text that was written last.
    written: Arc<AtomicU64>,
    /// The number of the last text, and what it was made from.
    last: u64,
    state: Option<State>,
    /// The instance ID of all runs with this file, if they have one.
    instance: Option<String>,
}

impl ClaimsFile {
    /// The file at this path, which is created later if it does not exist. `instance`: that of earlier runs, if they have one.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn open(path: PathBuf, instance: Option<String>) -> Result<Self, CommandError> {
        let file = ReplacedFile::at(&path)?;
        let (texts, received) = mpsc::channel();
        let written = Arc::<AtomicU64>::default();
        let number = Arc::clone(&written);
        let thread = thread::Builder::new().name("claims".to_owned());
        let started = thread.spawn(move || write(&file, &received, &number));
        started.map_err(CommandError::system("cannot keep claims"))?;
        Ok(Self { path, texts, written, last: 0, state: None, instance })
    }

    /// The instance ID, which is kept from now on.
    pub(super) fn instance(&mut self) -> String {
        let random = || uuid(*TraceId::random().as_bytes(), 4);
        self.instance.get_or_insert_with(random).clone()
    }

    /// Keeps a file that cannot be used under another name.
    pub(super) fn set_aside(&self, problem: Unusable) {
        let path = &self.path;
        let mut aside = path.as_os_str().to_owned();
        aside.push(".unreadable");
        let aside = PathBuf::from(aside);
        let kept = match fs::rename(path, &aside) {
            Ok(()) => format!("it is kept as {}", aside.display()),
            Err(error) => format!("it is replaced, since it cannot be renamed: {error}"),
        };
        warn!("{}: {problem}; {kept}; what an earlier run has billed is not known", path.display());
    }

    /// Replaces the contents, if they are others. Returns whether it has these, or will: not while others are being written.
    pub(super) fn write(&mut self, state: State, format: &InstantFormat) -> bool {
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
    pub(super) fn is_new(&self, state: &State) -> bool {
        let times = |state: &State| (state.until.len(), state.began);
        self.state.as_ref().is_none_or(|last| times(last) != times(state))
    }

    fn is_written(&self) -> bool {
        self.written.load(Ordering::Acquire) >= self.last
    }

    /// Waits until the last text is written, at the end of a run.
    pub(super) fn wait(&self) {
        wait_until(|| self.is_written());
    }
}

/// Waits at the end of a run for what the disk is to do, no longer than [`PATIENCE`].
pub(super) fn wait_until(mut is_done: impl FnMut() -> bool) {
    let began = Time::now();
    while !is_done() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes one text after the other.
fn write(file: &ReplacedFile, texts: &Receiver<(u64, Vec<u8>)>, written: &AtomicU64) {
    let mut has_failed = false;
    for (number, text) in texts {
        let failed = file.write(&text).err();
        if let Some(error) = failed.as_ref().filter(|_| !has_failed) {
            warn!(
                "{}; after a kill, time can be in no sum and no gap, or in both",
                error.in_one_line()
            );
        }
        has_failed = failed.is_some();
        written.store(number, Ordering::Release);
    }
}
