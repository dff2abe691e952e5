//! Writes a journal on a thread of its own, since a disk may hang. What is written outlives the process, and what is synced a
//! loss of power, too: that are the first step, each one from which requests are made, and one after a minute and a half
//! without.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use phasemeter_outbox::{JOURNAL, RunDirectory};
use tracing::warn;

use crate::stream::Stream;

/// How often the removal of a journal that is of no use any more is tried.
const REMOVAL: Duration = Duration::from_secs(10);

/// Entries that wait for the disk: of half a minute. Beyond it the journal is given up.
const MAX_WAITING: usize = 64;

/// Entries that are not synced: of a minute and a half, since most runs make requests once per minute.
const MAX_UNSYNCED: u32 = 180;

/// The size at which a journal is given up.
const MAX_BYTES: u64 = 64 << 20;

/// A thread that compresses and writes.
#[derive(Debug)]
pub struct Writer {
    entries: SyncSender<Waiting>,
    shared: Arc<Shared>,
}

/// An entry that waits for the disk, and whether it is synced.
type Waiting = (Vec<u8>, bool);

#[derive(Debug, Default)]
struct Shared {
    /// The number of the last entry that is written, and of the last one that is durable.
    written: AtomicU64,
    durable: AtomicU64,
    /// Whether the journal was given up.
    is_over: AtomicBool,
}

impl Writer {
    /// Starts to write. Entries are numbered from `next` on; nothing is made from those before that were not durable.
    pub(crate) fn start(directory: RunDirectory, stream: Stream, next: u64) -> io::Result<Self> {
        let (entries, received) = sync_channel(MAX_WAITING);
        let shared = Arc::new(Shared::default());
        shared.written.store(next - 1, Ordering::Release);
        shared.durable.store(next - 1, Ordering::Release);
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("journal".to_owned());
        thread.spawn(move || {
            let path = directory.path().display().to_string();
            if let Err(error) = write(stream, &received, &of_thread) {
                warn!("{path}: {error}; if this run is killed, it is not continued");
            }
            // It is of no use from now on: not after an error, and not after the end.
            remove(&directory, &path, &of_thread);
        })?;
        Ok(Self { entries, shared })
    }

    /// Writes an entry, which is also synced if `is_synced`. Returns false if the journal was given up.
    pub(crate) fn write(&self, entry: Vec<u8>, is_synced: bool) -> bool {
        let is_over = self.shared.is_over.load(Ordering::Acquire);
        !is_over && self.entries.try_send((entry, is_synced)).is_ok()
    }

    /// The number of the last entry that is written: it is there when this process has been killed.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// The number of the last entry that is durable: it is there after a loss of power.
    pub(crate) fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Whether the journal was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }
}

/// Writes until nobody has an entry any more.
fn write(mut stream: Stream, entries: &Receiver<Waiting>, shared: &Shared) -> io::Result<()> {
    // With its first step a run has begun.
    let mut unsynced = MAX_UNSYNCED;
    for (entry, is_synced) in entries {
        stream.append(&entry)?;
        if stream.bytes() > MAX_BYTES {
            return Err(io::Error::other("the journal of this run is too long"));
        }
        let written = shared.written.fetch_add(1, Ordering::AcqRel) + 1;
        unsynced += 1;
        if is_synced || unsynced > MAX_UNSYNCED {
            stream.sync()?;
            shared.durable.store(written, Ordering::Release);
            unsynced = 0;
        }
    }
    Ok(())
}

/// Removes a journal, as long as it takes: a run that went on from it would not have what has left since, also after a loss of
/// power.
fn remove(directory: &RunDirectory, path: &str, shared: &Shared) {
    let mut removal = removed(directory);
    // What was made from entries that are not durable leaves from now on.
    shared.is_over.store(true, Ordering::Release);
    let mut is_stated = false;
    while let Err(error) = removal {
        if !is_stated {
            warn!("{path}: cannot be removed: {error}");
        }
        is_stated = true;
        thread::sleep(REMOVAL);
        removal = removed(directory);
    }
}

fn removed(directory: &RunDirectory) -> io::Result<()> {
    let mut disk = directory.disk();
    match disk.remove(JOURNAL) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => disk.sync_directory()?,
    }
    directory.remove()
}
