//! The disk of a machine, as the outbox and its data directory use it.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;

use phasemeter_outbox::{ATTEMPTS, Directories, Disk, JOURNAL};

use crate::machine::{Change, Directory, DiskBug, File, HEAD, Machine, PARENTS, off, write};
use crate::rng::Rng;

/// The files of one directory of a machine.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    /// The machine.
    pub machine: Machine,
    directory: usize,
}

impl SimulatedDisk {
    /// The only directory of a new machine.
    #[must_use]
    pub fn new(rng: Rng, bug: Option<DiskBug>) -> Self {
        let machine = Machine::new(rng, bug);
        let directory = machine.state().directories.len();
        machine.state().directories.push(Directory::default());
        Self { machine, directory }
    }

    /// The contents of all files.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.machine.state();
        let names = state.directories[self.directory].now.iter();
        names.map(|(name, file)| (name.clone(), state.files[*file].now.clone())).collect()
    }

    /// Whether the head is not what it was.
    #[must_use]
    pub fn head_is_damaged(&self, before: &BTreeMap<String, Vec<u8>>) -> bool {
        self.files().get(HEAD) != before.get(HEAD)
    }

    /// Changes bits, or cuts a file off. Returns whether it hit something.
    #[must_use]
    pub fn damage(&self) -> bool {
        self.machine.damage(self.directory)
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let state = self.machine.state();
        let directory = state.directories.get(self.directory).ok_or(io::ErrorKind::NotFound)?;
        Ok(directory.now.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.machine.state();
        if state.bug == Some(DiskBug::SequenceReuse) && name == HEAD && state.is_opening {
            return Ok(Vec::new());
        }
        Ok(state.files[state.entry(self.directory, name)?].now.clone())
    }

    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.read(name)?;
        let end = (start + length).min(bytes.len());
        bytes.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        if state.entry(self.directory, name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = state.files.len();
        state.files.push(File::default());
        state.change(self.directory, Change::Add(name.to_owned(), file))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.machine.state();
        let file = state.entry(self.directory, name)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
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
        if fails { Err(off()) } else { Ok(()) }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        let (file, fails) = (state.entry(self.directory, name)?, state.fails()?);
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
            Some(DiskBug::AcknowledgeBeforeSync) if name != HEAD && name != JOURNAL => usize::MAX,
            Some(DiskBug::StepBeforeSync) if name == JOURNAL => usize::MAX,
            Some(DiskBug::ReplacedBeforeSync) if name.ends_with(".tmp") => usize::MAX,
            // The newest state is durable one sync later.
            Some(DiskBug::UnlinkBeforeHead) if name == HEAD => 1,
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
        let mut state = self.machine.state();
        // The head is made with the directory itself.
        let directory = &state.directories[self.directory];
        let is_removal = |change: &_| matches!(change, Change::Remove(name) if name == JOURNAL);
        let is_left_out = match state.bug {
            Some(DiskBug::NoDirectorySync) => directory.durable.contains_key(HEAD),
            Some(DiskBug::RemovalBeforeSync) => directory.changes.iter().any(is_removal),
            _ => false,
        };
        if is_left_out {
            return if state.fails()? { Err(off()) } else { Ok(()) };
        }
        state.sync_names(self.directory)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        state.entry(self.directory, from)?;
        state.change(self.directory, Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        state.entry(self.directory, name)?;
        let has_journal = state.entry(self.directory, JOURNAL).is_ok();
        if state.bug == Some(DiskBug::JournalStays) && has_journal && name != ATTEMPTS {
            return Ok(());
        }
        state.change(self.directory, Change::Remove(name.to_owned()))
    }
}

/// The directories of runs on a machine, in one that has them.
#[derive(Clone, Debug)]
pub struct SimulatedDirectories {
    machine: Machine,
    parent: usize,
}

impl SimulatedDirectories {
    /// All that a machine has.
    #[must_use]
    pub fn of(machine: &Machine) -> [Self; PARENTS] {
        std::array::from_fn(|parent| Self { machine: machine.clone(), parent })
    }
}

/// A directory is locked until this is dropped, or its process ends.
struct Held(Machine, usize);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state().locked.remove(&self.1);
    }
}

impl Directories for SimulatedDirectories {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.machine.state().directories[self.parent].now.keys().cloned().collect())
    }

    fn make(&self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        if state.entry(self.parent, name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let directory = state.directories.len();
        state.directories.push(Directory::default());
        state.change(self.parent, Change::Add(name.to_owned(), directory))
    }

    fn lock(&self, name: &str, file: &str) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let directory = self.machine.state().entry(self.parent, name)?;
        match self.disk(name).create(file) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let is_free = self.machine.state().locked.insert(directory);
        Ok(is_free
            .then(|| Box::new(Held(self.machine.clone(), directory)) as Box<dyn Any + Send + Sync>))
    }

    fn disk(&self, name: &str) -> Box<dyn Disk + Send> {
        let directory = match name {
            "" => self.parent,
            // One that does not exist has no files.
            name => self.machine.state().entry(self.parent, name).unwrap_or(usize::MAX),
        };
        Box::new(SimulatedDisk { machine: self.machine.clone(), directory })
    }

    fn sync(&self) -> io::Result<()> {
        self.machine.state().sync_names(self.parent)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.machine.state();
        let directory = state.entry(self.parent, name)?;
        if !state.directories[directory].now.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(self.parent, Change::Remove(name.to_owned()))
    }
}
