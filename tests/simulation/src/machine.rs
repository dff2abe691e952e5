//! A machine whose power fails: its disk loses what was not synced, any part of it, torn, in any order, names as well as
//! contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::rng::Rng;

const SECTOR: usize = 512;
/// The directories that have the others: those of outboxes, and of journals; and the data directory itself, which has files.
pub(crate) const PARENTS: usize = 3;
/// The file of an outbox that says up to where requests are settled.
pub(crate) const HEAD: &str = "head";

/// Errors that a log can have, planted in the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskBug {
    /// A request counts as stored before it is durable.
    AcknowledgeBeforeSync,
    /// The name of a new segment is not made durable.
    NoDirectorySync,
    /// A segment is removed before the head that says that it is settled is durable.
    UnlinkBeforeHead,
    /// Numbers continue from the segments alone: the head is not read.
    SequenceReuse,
    /// A step of a journal counts as stored before it is durable.
    StepBeforeSync,
    /// A journal that is of no use any more is not removed.
    JournalStays,
    /// Its removal is not made durable.
    RemovalBeforeSync,
    /// A file is replaced by one that is not durable.
    ReplacedBeforeSync,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// What survives a power loss.
    pub(crate) durable: Vec<u8>,
    /// What is read.
    pub(crate) now: Vec<u8>,
    /// Writes since the last sync.
    pub(crate) pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Add(String, usize),
    Remove(String),
    Rename(String, String),
}

/// The names in a directory: numbers of files, or, in the first ones, of directories.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) durable: BTreeMap<String, usize>,
    pub(crate) now: BTreeMap<String, usize>,
    pub(crate) changes: Vec<Change>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) files: Vec<File>,
    /// The first ones have the others.
    pub(crate) directories: Vec<Directory>,
    pub(crate) locked: BTreeSet<usize>,
    pub(crate) rng: Rng,
    pub(crate) bug: Option<DiskBug>,
    /// Operations until the power is cut.
    fuse: Option<u64>,
    is_off: bool,
    /// Operations that changed something, in all.
    operations: u64,
    /// Whether the disk is full, and in percent how often a sync fails.
    pub(crate) is_full: bool,
    pub(crate) failing_syncs: u64,
    pub(crate) is_opening: bool,
}

/// A machine. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Mutex<State>>);

impl Machine {
    /// A machine with an empty disk.
    #[must_use]
    pub fn new(rng: Rng, bug: Option<DiskBug>) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: Vec::new(),
            directories: (0..PARENTS).map(|_| Directory::default()).collect(),
            locked: BTreeSet::new(),
            rng,
            bug,
            fuse: None,
            is_off: false,
            operations: 0,
            is_full: false,
            failing_syncs: 0,
            is_opening: false,
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power within an operation: after this many.
    pub fn cut_after(&self, operations: u64) {
        self.state().fuse = Some(operations);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Operations that changed something, in all.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Counts an operation that is not one of the disk. Returns whether the power fails in it.
    ///
    /// # Errors
    /// Returns an error if it is off already.
    pub fn operate(&self) -> io::Result<bool> {
        self.state().fails()
    }

    /// Whether the disk is full, and in percent how often a sync fails.
    pub fn set_faults(&self, is_full: bool, failing_syncs: u64) {
        let mut state = self.state();
        (state.is_full, state.failing_syncs) = (is_full, failing_syncs);
    }

    /// While an outbox is opened.
    pub fn set_opening(&self, is_opening: bool) {
        self.state().is_opening = is_opening;
    }

    /// The process is killed; the disk keeps what was written.
    pub fn kill(&self) {
        let mut state = self.state();
        (state.fuse, state.is_off) = (None, false);
    }

    /// The power fails, and comes back.
    pub fn lose_power(&self) {
        let mut state = self.state();
        let State { files, directories, rng, .. } = &mut *state;
        for Directory { durable, now, changes } in directories {
            for change in changes.drain(..) {
                if rng.percent(50) {
                    apply(durable, &change);
                }
            }
            *now = durable.clone();
        }
        for file in files {
            let mut pending = std::mem::take(&mut file.pending);
            if rng.percent(30) && !pending.is_empty() {
                let last = pending.len() - 1;
                pending.swap(0, last);
            }
            for (offset, bytes) in pending {
                let (offset, bytes) = match rng.below(4) {
                    0 => continue,
                    1 => torn(rng, offset, &bytes),
                    _ => (offset, bytes),
                };
                write(&mut file.durable, offset, &bytes);
            }
            file.now.clone_from(&file.durable);
        }
        (state.fuse, state.is_off) = (None, false);
    }

    /// Changes bits of a file in this directory, or cuts it off. Returns whether it hit something.
    pub(crate) fn damage(&self, directory: usize) -> bool {
        let mut state = self.state();
        let State { files, directories, rng, .. } = &mut *state;
        let now = &directories[directory].now;
        let victims: Vec<usize> =
            now.values().copied().filter(|it| !files[*it].now.is_empty()).collect();
        let Some(victim) = victims.get(rng.index(victims.len())) else { return false };
        let file = &mut files[*victim];
        let at = rng.index(file.now.len());
        match rng.below(3) {
            0 => file.now.truncate(at),
            1 => file.now[at] ^= 1 << rng.below(8),
            _ => {
                let end = (at + SECTOR).min(file.now.len());
                file.now[at..end].fill(0);
            }
        }
        file.durable.clone_from(&file.now);
        file.pending.clear();
        true
    }
}

/// The part of a write that a power loss left: some of its sectors.
fn torn(rng: &mut Rng, offset: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
    let cut = rng.index(bytes.len());
    // Sectors are written whole, if the disk is a good one.
    let cut = if rng.percent(50) { cut } else { cut / SECTOR * SECTOR };
    match rng.percent(50) {
        true => (offset, bytes[..cut].to_vec()),
        false => (offset + cut, bytes[cut..].to_vec()),
    }
}

pub(crate) fn write(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

pub(crate) fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    match change {
        Change::Add(name, file) => {
            names.insert(name.clone(), *file);
        }
        Change::Remove(name) => {
            names.remove(name);
        }
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

impl State {
    /// Counts an operation; returns whether the power fails in it.
    pub(crate) fn fails(&mut self) -> io::Result<bool> {
        if self.is_off {
            return Err(off());
        }
        self.operations += 1;
        match &mut self.fuse {
            Some(0) => self.is_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(self.is_off)
    }

    pub(crate) fn change(&mut self, directory: usize, change: Change) -> io::Result<()> {
        let fails = self.fails()?;
        if !fails || self.rng.percent(50) {
            let directory = &mut self.directories[directory];
            apply(&mut directory.now, &change);
            directory.changes.push(change);
        }
        if fails { Err(off()) } else { Ok(()) }
    }

    pub(crate) fn entry(&self, directory: usize, name: &str) -> io::Result<usize> {
        let directory = self.directories.get(directory);
        let found = directory.and_then(|directory| directory.now.get(name).copied());
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn sync_names(&mut self, directory: usize) -> io::Result<()> {
        if self.fails()? {
            return Err(off());
        }
        let Directory { durable, changes, .. } = &mut self.directories[directory];
        changes.drain(..).for_each(|change| apply(durable, &change));
        Ok(())
    }
}

/// The error of an operation after the power has failed.
pub(crate) fn off() -> io::Error {
    io::Error::other("power is off")
}
