//! Writes a journal, on a thread of its own, since a disk may hang. What is written outlives the process, and what is synced a
//! loss of power, too: that are the first step, each one from which requests are made, and one after a minute and a half
//! without.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use phasemeter_outbox::RunDirectory;
use tracing::{info, warn};

use crate::stream::Stream;

/// How often the removal of a journal that is of no use any more is tried.
const REMOVAL: Duration = Duration::from_secs(10);

/// Entries that wait for the disk: of half a minute. Beyond it the journal is given up.
const MAX_WAITING: usize = 64;

/// Entries that are not synced: of a minute and a half, since most runs make requests once per minute.
const MAX_UNSYNCED: u32 = 180;

/// The size at which a journal is given up.
const MAX_BYTES: u64 = 64 << 20;

/// Passes the entries of a run to what writes them.
#[derive(Debug)]
pub struct Writer {
    /// `None` once the journal is given up.
    entries: Option<SyncSender<Waiting>>,
    shared: Arc<Shared>,
}

/// What writes the entries of a journal, and removes it once it is of no use any more.
#[derive(Debug)]
pub struct Writing {
    directory: RunDirectory,
    stream: Stream,
    entries: Receiver<Waiting>,
    shared: Arc<Shared>,
    /// Entries since the last one that was synced.
    unsynced: u32,
    state: State,
}

/// An entry that waits for the disk, and whether it is synced.
type Waiting = (Vec<u8>, bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Written,
    /// It is to be removed.
    Useless,
    /// That was refused.
    Stuck,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of the last entry that is written, and of the last one that is durable.
    written: AtomicU64,
    durable: AtomicU64,
    /// Whether the journal was removed, or its removal was refused.
    is_over: AtomicBool,
}

impl Writer {
    /// Passes entries to `start`. They are numbered from `next` on; nothing is made from those before that were not durable.
    pub(crate) fn start(
        directory: RunDirectory,
        stream: Stream,
        next: u64,
        start: impl FnOnce(Writing) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (entries, received) = sync_channel(MAX_WAITING);
        let shared = Arc::new(Shared::default());
        shared.written.store(next - 1, Ordering::Release);
        shared.durable.store(next - 1, Ordering::Release);
        start(Writing {
            directory,
            stream,
            entries: received,
            shared: Arc::clone(&shared),
            // With its first step a run has begun.
            unsynced: MAX_UNSYNCED,
            state: State::Written,
        })?;
        Ok(Self { entries: Some(entries), shared })
    }

    /// Writes an entry, which is also synced if `is_synced`. The journal is given up if too many wait.
    pub(crate) fn write(&mut self, entry: Vec<u8>, is_synced: bool) {
        let sent = self.entries.as_ref().map(|entries| entries.try_send((entry, is_synced)));
        if sent.is_some_and(|sent| sent.is_err()) {
            self.give_up("the disk does not keep up");
        }
    }

    /// Gives the journal up, which is then removed.
    pub(crate) fn give_up(&mut self, why: impl Display) {
        if self.entries.take().is_some() {
            info!("if this run is killed from now on, it is not continued: {why}");
        }
    }

    /// Whether the journal is given up.
    pub(crate) const fn is_given_up(&self) -> bool {
        self.entries.is_none()
    }

    /// The number of the last entry that is written: it is there when this process has been killed.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// The number of the last entry that is durable: it is there after a loss of power.
    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Whether the journal was removed, or its removal was refused.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }
}

impl Writing {
    /// Writes on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn on_thread(mut self) -> io::Result<()> {
        let thread = thread::Builder::new().name("journal".to_owned());
        thread.spawn(move || {
            while let Some(pause) = self.turn(REMOVAL) {
                thread::sleep(pause);
            }
        })?;
        Ok(())
    }

    /// Writes the next entry, if there is one in time, or removes a journal that is of no use any more: nobody has an entry, or an
    /// error has occurred. Returns how long to wait for the next turn; `None` after the last one.
    pub fn turn(&mut self, patience: Duration) -> Option<Duration> {
        if self.state == State::Written {
            let written = match self.entries.recv_timeout(patience) {
                Ok((entry, is_synced)) => self.write(&entry, is_synced),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    self.state = State::Useless;
                    Ok(())
                }
            };
            if let Err(error) = written {
                let path = self.directory.path().display();
                warn!("{path}: {error}; if this run is killed, it is not continued");
                self.state = State::Useless;
            }
            return Some(Duration::ZERO);
        }
        self.remove()
    }

    fn write(&mut self, entry: &[u8], is_synced: bool) -> io::Result<()> {
        self.stream.append(entry)?;
        if self.stream.bytes() > MAX_BYTES {
            return Err(io::Error::other("the journal of this run is too long"));
        }
        let written = self.shared.written.fetch_add(1, Ordering::AcqRel) + 1;
        self.unsynced += 1;
        if is_synced || self.unsynced > MAX_UNSYNCED {
            self.stream.sync()?;
            self.shared.durable.store(written, Ordering::Release);
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Tries to remove the journal: a run that went on from it would not have what leaves from now on, also after a loss of
    /// power.
    fn remove(&mut self) -> Option<Duration> {
        let removed = self.directory.remove();
        // What was made from entries that are not durable leaves.
        self.shared.is_over.store(true, Ordering::Release);
        let error = removed.err()?;
        if self.state != State::Stuck {
            warn!("{}: cannot be removed: {error}", self.directory.path().display());
        }
        self.state = State::Stuck;
        Some(REMOVAL)
    }
}
