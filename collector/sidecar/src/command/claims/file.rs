//! The file of claims in the data directory: read, and replaced on a thread of its own, since a disk may hang.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant as Time};

use phasemeter_claims::{Content, InstantFormat, State};
use phasemeter_files::read_file;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::experiment::{TraceId, uuid};
use tracing::warn;

use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;

/// The maximum size of the file.
const MAX_BYTES: u64 = 256 << 20;

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

/// What earlier runs have left.
#[derive(Debug)]
pub(super) enum Left {
    /// There was no file.
    Nothing,
    /// A file that can be read.
    Content(Box<Content>),
    /// A file that cannot be used.
    Unreadable,
}

impl ClaimsFile {
    /// Opens the file, which is created later if it does not exist, and reads what is left. One that is damaged is kept under
    /// another name.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or written.
    pub(super) fn open(path: &Path) -> Result<(Self, Left), CommandError> {
        let file = ReplacedFile::at(path)?;
        let left = match read_file(path, MAX_BYTES) {
            Ok(text) => match Content::parse(&text) {
                Some(content) => Left::Content(Box::new(content)),
                None => set_aside(path, "damaged, or of another version"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Left::Nothing,
            Err(source) => {
                let what = "cannot read the claims of earlier runs";
                return Err(CommandError::System { what, source });
            }
        };
        let instance = match &left {
            Left::Content(content) => content.instance().map(str::to_owned),
            Left::Nothing | Left::Unreadable => None,
        };
        let (texts, received) = mpsc::channel();
        let written = Arc::<AtomicU64>::default();
        let (path, number) = (path.to_owned(), Arc::clone(&written));
        let thread = thread::Builder::new().name("claims".to_owned());
        let started = thread.spawn(move || write(&file, &received, &number));
        started.map_err(CommandError::system("cannot keep claims"))?;
        Ok((Self { path, texts, written, last: 0, state: None, instance }, left))
    }

    /// The instance ID, which is kept from now on.
    pub(super) fn instance(&mut self) -> String {
        let random = || uuid(*TraceId::random().as_bytes(), 4);
        self.instance.get_or_insert_with(random).clone()
    }

    /// Keeps what is left under another name, since it has this time, which has not come.
    pub(super) fn set_aside(&self, newest: Timestamp) -> Left {
        let newest = Instant(newest);
        set_aside(&self.path, &format!("has times up to {newest}, ahead of this machine's clock"))
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
        let began = Time::now();
        while !self.is_written() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
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

/// Keeps a file that cannot be used under another name.
fn set_aside(path: &Path, problem: &str) -> Left {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".unreadable");
    let aside = PathBuf::from(aside);
    let kept = match fs::rename(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it is replaced, since it cannot be renamed: {error}"),
    };
    warn!("{}: {problem}; {kept}; what an earlier run has billed is not known", path.display());
    Left::Unreadable
}
