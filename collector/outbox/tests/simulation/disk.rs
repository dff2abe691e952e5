//! A disk that loses what was not synced: any part of it, torn, in any order, names as well as contents.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use phasemeter_outbox::Disk;

use crate::Bug;
use crate::rng::Rng;

const SECTOR: usize = 512;
const HEAD: &str = "head";

#[derive(Clone, Debug, Default)]
struct File {
    /// What survives a power loss.
    durable: Vec<u8>,
    /// What is read.
    now: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Add(String, usize),
    Remove(String),
    Rename(String, String),
}

#[derive(Debug)]
struct State {
    files: Vec<File>,
    durable: BTreeMap<String, usize>,
    now: BTreeMap<String, usize>,
    changes: Vec<Change>,
    rng: Rng,
    bug: Option<Bug>,
    /// Operations until the power is cut.
    fuse: Option<u64>,
    is_off: bool,
    /// Operations that changed something, in all.
    operations: u64,
    /// Whether the disk is full, and in percent how often a sync fails.
    is_full: bool,
    failing_syncs: u64,
    is_opening: bool,
}

/// A disk. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Rc<RefCell<State>>);

impl SimulatedDisk {
    pub(crate) fn new(rng: Rng, bug: Option<Bug>) -> Self {
        Self(Rc::new(RefCell::new(State {
            files: Vec::new(),
            durable: BTreeMap::new(),
            now: BTreeMap::new(),
            changes: Vec::new(),
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

    /// Cuts the power within an operation: after this many.
    pub(crate) fn cut_after(&self, operations: u64) {
        self.0.borrow_mut().fuse = Some(operations);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.0.borrow().is_off
    }

    pub(crate) fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    pub(crate) fn set_faults(&self, is_full: bool, failing_syncs: u64) {
        let mut state = self.0.borrow_mut();
        (state.is_full, state.failing_syncs) = (is_full, failing_syncs);
    }

    /// While an outbox is opened.
    pub(crate) fn set_opening(&self, is_opening: bool) {
        self.0.borrow_mut().is_opening = is_opening;
    }

    /// The process is killed; the disk keeps what was written.
    pub(crate) fn kill(&self) {
        let mut state = self.0.borrow_mut();
        (state.fuse, state.is_off) = (None, false);
    }

    /// The power fails, and comes back.
    pub(crate) fn lose_power(&self) {
        let mut state = self.0.borrow_mut();
        let State { files, durable, now, changes, rng, .. } = &mut *state;
        for change in changes.drain(..) {
            if rng.percent(50) {
                apply(durable, &change);
            }
        }
        *now = durable.clone();
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

    /// The contents of all files.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.0.borrow();
        state
            .now
            .iter()
            .map(|(name, file)| (name.clone(), state.files[*file].now.clone()))
            .collect()
    }

    /// Whether the head is not what it was.
    pub(crate) fn head_is_damaged(&self, before: &BTreeMap<String, Vec<u8>>) -> bool {
        self.files().get(HEAD) != before.get(HEAD)
    }

    /// Changes bits, or cuts a file off. Returns whether it hit something.
    pub(crate) fn damage(&self) -> bool {
        let mut state = self.0.borrow_mut();
        let State { files, now, rng, .. } = &mut *state;
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

fn write(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
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
    fn fails(&mut self) -> io::Result<bool> {
        if self.is_off {
            return Err(io::Error::other("power is off"));
        }
        self.operations += 1;
        match &mut self.fuse {
            Some(0) => self.is_off = true,
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(self.is_off)
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        let fails = self.fails()?;
        if !fails || self.rng.percent(50) {
            apply(&mut self.now, &change);
            self.changes.push(change);
        }
        if fails { Err(io::Error::other("power is off")) } else { Ok(()) }
    }

    fn file(&self, name: &str) -> io::Result<usize> {
        self.now.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().now.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.0.borrow();
        if state.bug == Some(Bug::SequenceReuse) && name == HEAD && state.is_opening {
            return Ok(Vec::new());
        }
        Ok(state.files[state.file(name)?].now.clone())
    }

    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap();
        let bytes = self.read(name)?;
        let end = (start + length).min(bytes.len());
        bytes.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if state.now.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.files.len();
        state.files.push(File::default());
        state.change(Change::Add(name.to_owned(), file))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let file = state.file(name)?;
        let start = usize::try_from(offset).unwrap();
        let (fails, end) = (state.fails()?, start + bytes.len());
        if state.is_full && end > state.files[file].now.len() {
            // A part may fit.
            let part = state.rng.index(bytes.len());
            write(&mut state.files[file].now, start, &bytes[..part]);
            state.files[file].pending.push((start, bytes[..part].to_vec()));
            return Err(io::ErrorKind::StorageFull.into());
        }
        let part = if fails { state.rng.index(bytes.len()) } else { bytes.len() };
        write(&mut state.files[file].now, start, &bytes[..part]);
        state.files[file].pending.push((start, bytes[..part].to_vec()));
        if fails { Err(io::Error::other("power is off")) } else { Ok(()) }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let (file, fails) = (state.file(name)?, state.fails()?);
        let fails_here = {
            let percent = state.failing_syncs;
            state.rng.percent(percent)
        };
        if fails || fails_here {
            // What it did not write is no longer pending, as of a page cache.
            let (half, file) = (state.rng.percent(50), &mut state.files[file]);
            if half && let Some((offset, bytes)) = file.pending.pop() {
                write(&mut file.durable, offset, &bytes);
            }
            if !fails {
                file.pending.clear();
            }
            return Err(io::Error::other("input/output error"));
        }
        let keeps = match state.bug {
            Some(Bug::AcknowledgeBeforeSync) if name != HEAD => usize::MAX,
            // The newest state is durable one sync later.
            Some(Bug::UnlinkBeforeHead) if name == HEAD => 1,
            _ => 0,
        };
        let file = &mut state.files[file];
        let durable = file.pending.len().saturating_sub(keeps);
        for (offset, bytes) in file.pending.drain(..durable) {
            write(&mut file.durable, offset, &bytes);
        }
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let fails = state.fails()?;
        if fails {
            return Err(io::Error::other("power is off"));
        }
        // The head is made with the directory itself.
        if state.bug != Some(Bug::NoDirectorySync) || !state.durable.contains_key(HEAD) {
            let State { durable, changes, .. } = &mut *state;
            changes.drain(..).for_each(|change| apply(durable, &change));
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.file(from)?;
        state.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.file(name)?;
        state.change(Change::Remove(name.to_owned()))
    }
}
