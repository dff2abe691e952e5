//! Writes a journal on a thread of its own, since a disk may hang. Nothing is synced: what is written outlives the process,
//! and no run goes on after a loss of power.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use phasemeter_outbox::RunDirectory;
use tracing::warn;

use crate::stream::Stream;

/// How often the removal of a journal that is of no use any more is tried.
const REMOVAL: Duration = Duration::from_secs(10);

/// Entries that wait for the disk: of half a minute. Beyond it the journal is given up.
const MAX_WAITING: usize = 64;

/// The size at which a journal is given up.
const MAX_BYTES: u64 = 64 << 20;

/// A thread that compresses and writes.
#[derive(Debug)]
pub struct Writer {
    entries: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of the last entry that is written.
    written: AtomicU64,
    /// Whether the journal was given up.
    is_over: AtomicBool,
}

impl Writer {
    /// Starts to write. Entries are numbered from `next` on.
    pub(crate) fn start(directory: RunDirectory, stream: Stream, next: u64) -> io::Result<Self> {
        let (entries, received) = sync_channel(MAX_WAITING);
        let shared = Arc::new(Shared::default());
        shared.written.store(next - 1, Ordering::Release);
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("journal".to_owned());
        thread.spawn(move || {
            let path = directory.path().display().to_string();
            if let Err(error) = write(stream, &received, &of_thread) {
                warn!("{path}: {error}; if this run is killed, it is not continued");
            }
            // It is of no use from now on: not after an error, and not after the end.
            of_thread.is_over.store(true, Ordering::Release);
            remove(&directory, &path);
        })?;
        Ok(Self { entries, shared })
    }

    /// Writes an entry. Returns false if the journal was given up.
    pub(crate) fn write(&self, entry: Vec<u8>) -> bool {
        !self.shared.is_over.load(Ordering::Acquire) && self.entries.try_send(entry).is_ok()
    }

    /// The number of the last entry that is written: it is there when this process has been killed.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Whether the journal was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }
}

/// Writes until nobody has an entry any more.
fn write(mut stream: Stream, entries: &Receiver<Vec<u8>>, shared: &Shared) -> io::Result<()> {
    for entry in entries {
        stream.append(&entry)?;
        if stream.bytes() > MAX_BYTES {
            return Err(io::Error::other("the journal of this run is too long"));
        }
        shared.written.fetch_add(1, Ordering::AcqRel);
    }
    Ok(())
}

/// Removes a journal, as long as it takes: a run that goes on from it would not have what has left since.
fn remove(directory: &RunDirectory, path: &str) {
    let mut is_stated = false;
    while let Err(error) = directory.remove() {
        if !is_stated {
            warn!("{path}: cannot be removed: {error}");
        }
        is_stated = true;
        thread::sleep(REMOVAL);
    }
}
