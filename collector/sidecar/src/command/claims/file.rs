//! The file of `--state`: read, kept from other processes, and replaced.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
use crate::command::live_error::LiveError;

/// The maximum size of the file: a thousand claims of a large fleet.
const MAX_BYTES: u64 = 256 << 20;

/// The file.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: ReplacedFile,
    /// Keeps other processes from it. `None` if its file system has no locks.
    _lock: Option<File>,
    /// What it was written from.
    written: Option<State>,
    has_failed: bool,
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

impl StateFile {
    /// Opens the file, which is created later if it does not exist, and reads what is left. One that cannot
    /// be read is kept under another name.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or written, or another process keeps it for longer than `patience`.
    pub(super) fn open(path: &Path, patience: Duration) -> Result<(Self, Left), CommandError> {
        let file = ReplacedFile::at(path)?;
        let lock = lock(path, patience)?;
        let left = match read_file(path, MAX_BYTES) {
            Ok(text) => match Content::parse(&text) {
                Some(content) => Left::Content(Box::new(content)),
                None => set_aside(path, "not a file of --state, or damaged"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Left::Nothing,
            Err(source) => {
                let what = "cannot read the file of --state";
                return Err(CommandError::System { what, source });
            }
        };
        let instance = match &left {
            Left::Content(content) => content.instance().map(str::to_owned),
            Left::Nothing | Left::Unreadable => None,
        };
        let path = path.to_owned();
        let state = Self { path, file, _lock: lock, written: None, has_failed: false, instance };
        Ok((state, left))
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

    /// Replaces the contents, if they are others.
    pub(super) fn write(&mut self, state: State, marks: &InstantFormat) {
        if self.written.as_ref() == Some(&state) {
            return;
        }
        let text = Content::new(self.instance.clone(), &state, marks).to_json();
        let failed = self.file.write(&text).is_err();
        if failed && !self.has_failed {
            warn!(
                "{}: cannot be written; after a kill, time can be in no sum and no gap, or in both",
                self.path.display()
            );
        }
        self.has_failed = failed;
        self.written = (!failed).then_some(state);
    }
}

/// Takes the lock of the file, which is another file: this one is replaced.
fn lock(path: &Path, patience: Duration) -> Result<Option<File>, CommandError> {
    // It is rejected when it is read, and nothing is left beside it.
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return Ok(None);
    }
    let beside = beside(path, ".lock");
    let opened = File::options().create(true).append(true).mode(0o600).open(&beside);
    let file = opened.map_err(CommandError::write(&beside))?;
    let began = Time::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(LiveError::StateInUse { path: path.to_owned() }.into());
            }
            Err(TryLockError::Error(error)) => {
                warn!(
                    "{}: cannot be locked: {error}; use it in one process only",
                    beside.display()
                );
                return Ok(None);
            }
        }
    }
}

/// The path with something added to its name.
fn beside(path: &Path, added: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(added);
    name.into()
}

/// Keeps a file that cannot be used under another name.
fn set_aside(path: &Path, problem: &str) -> Left {
    let aside = beside(path, ".unreadable");
    let kept = match fs::rename(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it is replaced, since it cannot be renamed: {error}"),
    };
    warn!("{}: {problem}; {kept}; what an earlier run has billed is not known", path.display());
    Left::Unreadable
}
