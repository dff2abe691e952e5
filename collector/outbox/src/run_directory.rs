//! A directory per run, locked while the run lives: `PARENT/START-PID/{lock,label,…}`.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use crate::disk::{Directories, Disk};
use crate::file_disk::FileDirectories;
use crate::record::Records;
use crate::stream::Stream;
use crate::{journal, segment};

const LOCK: &str = "lock";
const LABEL: &str = "label";
/// Bytes of a label at most.
const LABEL_BYTES: usize = 64 << 10;
/// Runs of the same nanosecond and process.
const ATTEMPTS: u64 = 16;

/// The directories of runs, side by side.
#[derive(Clone, Debug)]
pub struct Runs {
    directories: Arc<dyn Directories>,
    path: PathBuf,
}

impl Runs {
    /// Those of files at this path, which must exist.
    pub(crate) fn of_files(path: PathBuf) -> Self {
        Self::new(Arc::new(FileDirectories(path.clone())), path)
    }

    pub(crate) const fn new(directories: Arc<dyn Directories>, path: PathBuf) -> Self {
        Self { directories, path }
    }

    /// Makes the directory of a run that begins at `now` (nanoseconds since 1970). The label says what it is for.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn begin(&self, label: &str, now: u64) -> io::Result<RunDirectory> {
        for attempt in 0..ATTEMPTS {
            let name = format!("{:016x}-{}", now.saturating_add(attempt), process::id());
            match self.directories.make(&name) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let made = self.prepare(&name, label);
            if made.is_err() {
                // Without a label, no other run would remove it.
                let mut disk = self.directories.disk(&name);
                [LABEL, LOCK].iter().for_each(|file| drop(disk.remove(file)));
                let _ = self.directories.remove(&name);
            }
            return made;
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Locks the directory of a run, and labels it.
    fn prepare(&self, name: &str, label: &str) -> io::Result<RunDirectory> {
        let lock = self.directories.lock(name, LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        let mut disk = self.directories.disk(name);
        disk.create(LABEL)?;
        disk.write_at(LABEL, 0, label.as_bytes())?;
        disk.sync(LABEL)?;
        disk.sync_directory()?;
        self.directories.sync()?;
        Ok(self.run(name, label.to_owned(), lock))
    }

    /// Reads the payloads that runs have stored last: of each stream, those of its two newest segments, settled ones too.
    /// They are durable then: what a process has written that was killed, a loss of power could take back.
    pub(crate) fn read_newest(&self, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        let names = match self.directories.names() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names?,
        };
        for name in names {
            let mut disk = self.directories.disk(&name);
            let files = disk.names()?;
            let mut segments: Vec<_> = files.iter().filter_map(|it| segment::parse(it)).collect();
            segments.sort_unstable_by_key(|(_, first)| *first);
            for stream in Stream::ALL {
                let of_stream = segments.iter().rev().filter(|(it, _)| *it == stream);
                for (_, first) in of_stream.take(2) {
                    let segment = segment::name(stream, *first);
                    disk.sync(&segment)?;
                    let bytes = disk.read(&segment)?;
                    let records = Records::new(&bytes, segment::salt(stream, *first));
                    records.for_each(|(_, record)| read(record.payload));
                }
            }
            if !segments.is_empty() {
                disk.sync_directory()?;
            }
        }
        Ok(())
    }

    /// The directories of runs that ended, oldest first. Each is locked once it is taken, so that no other process
    /// takes it, too.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read. What cannot be locked is left out.
    pub fn ended(&self) -> io::Result<impl Iterator<Item = RunDirectory> + use<>> {
        let mut names = self.directories.names()?;
        names.sort();
        let runs = self.clone();
        Ok(names.into_iter().filter_map(move |name| runs.ended_run(&name)))
    }

    fn ended_run(&self, name: &str) -> Option<RunDirectory> {
        let disk = self.directories.disk(name);
        // Without a label, it is being made.
        disk.read_at(LABEL, 0, 0).ok()?;
        let lock = self.directories.lock(name, LOCK).ok().flatten()?;
        let label = disk.read(LABEL).ok().filter(|label| label.len() <= LABEL_BYTES)?;
        Some(self.run(name, String::from_utf8(label).ok()?, lock))
    }

    fn run(&self, name: &str, label: String, lock: Box<dyn Any + Send + Sync>) -> RunDirectory {
        let path = self.path.join(name);
        RunDirectory { runs: self.clone(), name: name.to_owned(), path, label, _lock: lock }
    }
}

/// The directory of one run, locked by this process.
#[derive(Debug)]
pub struct RunDirectory {
    runs: Runs,
    name: String,
    path: PathBuf,
    label: String,
    _lock: Box<dyn Any + Send + Sync>,
}

impl RunDirectory {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is for.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its files.
    #[must_use]
    pub fn disk(&self) -> Box<dyn Disk + Send> {
        self.runs.directories.disk(&self.name)
    }

    /// Removes it, once everything in it is settled. Damaged segments stay.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn remove(&self) -> io::Result<()> {
        let mut disk = self.disk();
        let names = disk.names()?;
        let is_kept = |name: &str| name == journal::JOURNAL || segment::parse(name).is_some();
        for name in names.iter().filter(|name| is_kept(name)) {
            disk.remove(name)?;
        }
        // No segment may come back without the head that says that it is settled, and no journal once what is not in it has left.
        disk.sync_directory()?;
        for name in [journal::ATTEMPTS, crate::head::NAME, LABEL, LOCK] {
            match disk.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.runs.directories.remove(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }
}
