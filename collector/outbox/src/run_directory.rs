//! The data directory, and in it a directory per run, locked while the run lives:
//! `DATA/outbox/START-PID/{lock,label,head,*.log}`.

use std::any::Any;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

use crate::disk::{Directories, Disk};
use crate::file_disk::{FileDirectories, lock, sync_directory};
use crate::limits::Limits;
use crate::segment;

const OUTBOX: &str = "outbox";
const REPORTS: &str = "reports";
const LOCK: &str = "lock";
const LABEL: &str = "label";
/// Bytes of a label at most.
const LABEL_BYTES: usize = 64 << 10;
/// Runs of the same nanosecond and process.
const ATTEMPTS: u64 = 16;

/// A data directory cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// Another process uses it alone.
    #[error("{}: another process uses it; give each a directory of its own", .0.display())]
    Busy(PathBuf),
    /// The disk refused.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Disk(PathBuf, io::Error),
}

/// A directory for data that outlives a process.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    runs: Arc<dyn Directories>,
    limits: Limits,
    clock: fn() -> u64,
    /// Held while it is used by this process alone.
    _lock: Option<File>,
}

impl DataDirectory {
    /// Opens a directory, and makes it if it does not exist. `alone`: no other process may use it, too.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, or if another process uses it alone.
    pub fn open(path: &Path, alone: bool) -> Result<Self, DataError> {
        let failed = |error| DataError::Disk(path.to_owned(), error);
        make(&path.join(OUTBOX)).map_err(failed)?;
        sync_directory(path).map_err(failed)?;
        // A path of one relative name has an empty parent.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), sync_directory).map_err(failed)?;
        let lock = match alone.then(|| lock(&path.join(LOCK))).transpose().map_err(failed)? {
            Some(None) => return Err(DataError::Busy(path.to_owned())),
            lock => lock.flatten(),
        };
        Ok(Self::of_files(path, lock))
    }

    /// The same as it would be opened, but makes nothing, and keeps it for no process.
    ///
    /// # Errors
    /// Returns an error if another process uses it alone.
    pub fn look(path: &Path, alone: bool) -> Result<Self, DataError> {
        let lock = alone.then(|| File::open(path.join(LOCK)).ok()).flatten();
        let is_busy = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        if lock.is_some_and(is_busy) {
            return Err(DataError::Busy(path.to_owned()));
        }
        Ok(Self::of_files(path, None))
    }

    fn of_files(path: &Path, lock: Option<File>) -> Self {
        let runs = Arc::new(FileDirectories(path.join(OUTBOX)));
        Self { _lock: lock, ..Self::new(path, runs, Limits::default(), wall_nanos) }
    }

    /// One whose runs are elsewhere than in a file system. `clock`: the time in nanoseconds since 1970.
    #[must_use]
    pub fn new(
        path: &Path,
        runs: Arc<dyn Directories>,
        limits: Limits,
        clock: fn() -> u64,
    ) -> Self {
        Self { path: path.to_owned(), runs, limits, clock, _lock: None }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its runs are.
    #[must_use]
    pub fn outbox(&self) -> PathBuf {
        self.path.join(OUTBOX)
    }

    /// How much the outbox of a run keeps.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// The time in nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// The directory of reports in it, which it makes if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn reports(&self) -> io::Result<PathBuf> {
        let path = self.path.join(REPORTS);
        make(&path)?;
        sync_directory(&self.path)?;
        Ok(path)
    }

    /// Makes the directory of a run that begins now. The label says what it is for.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn begin(&self, label: &str) -> io::Result<RunDirectory> {
        let now = self.now();
        for attempt in 0..ATTEMPTS {
            let name = format!("{:016x}-{}", now.saturating_add(attempt), process::id());
            match self.runs.make(&name) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let made = self.prepare(&name, label);
            if made.is_err() {
                // Without a label, no other run would remove it.
                let mut disk = self.runs.disk(&name);
                [LABEL, LOCK].iter().for_each(|file| drop(disk.remove(file)));
                let _ = self.runs.remove(&name);
            }
            return made;
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Locks the directory of a run, and labels it.
    fn prepare(&self, name: &str, label: &str) -> io::Result<RunDirectory> {
        let lock = self.runs.lock(name, LOCK)?.ok_or(io::ErrorKind::WouldBlock)?;
        let mut disk = self.runs.disk(name);
        disk.create(LABEL)?;
        disk.write_at(LABEL, 0, label.as_bytes())?;
        disk.sync(LABEL)?;
        disk.sync_directory()?;
        self.runs.sync()?;
        Ok(self.run(name, label.to_owned(), lock))
    }

    /// What its runs keep there, those in progress included: their number, and the bytes of their segments, which have
    /// requests that were accepted lately, too.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn kept(&self) -> io::Result<(u64, u64)> {
        let (mut runs, mut bytes) = (0, 0);
        let outbox = self.outbox();
        if !outbox.try_exists()? {
            return Ok((runs, bytes));
        }
        for run in fs::read_dir(outbox)?.flatten() {
            // A run may end meanwhile.
            let Ok(files) = fs::read_dir(run.path()) else { continue };
            runs += 1;
            let is_segment =
                |file: &fs::DirEntry| file.file_name().to_str().and_then(segment::parse).is_some();
            let segments = files.flatten().filter(is_segment);
            bytes += segments.filter_map(|it| Some(it.metadata().ok()?.len())).sum::<u64>();
        }
        Ok((runs, bytes))
    }

    /// The directories of runs that ended, oldest first. Each is locked once it is taken, so that no other process
    /// delivers it, too.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read. What cannot be locked is left out.
    pub fn ended(&self) -> io::Result<impl Iterator<Item = RunDirectory>> {
        let mut names = self.runs.names()?;
        names.sort();
        Ok(names.into_iter().filter_map(|name| self.ended_run(&name)))
    }

    fn ended_run(&self, name: &str) -> Option<RunDirectory> {
        let disk = self.runs.disk(name);
        // Without a label, it is being made.
        disk.read_at(LABEL, 0, 0).ok()?;
        let lock = self.runs.lock(name, LOCK).ok().flatten()?;
        let label = disk.read(LABEL).ok().filter(|label| label.len() <= LABEL_BYTES)?;
        Some(self.run(name, String::from_utf8(label).ok()?, lock))
    }

    fn run(&self, name: &str, label: String, lock: Box<dyn Any + Send + Sync>) -> RunDirectory {
        let (runs, path) = (Arc::clone(&self.runs), self.path.join(OUTBOX).join(name));
        RunDirectory { runs, name: name.to_owned(), path, label, _lock: lock }
    }
}

/// The directory of one run, locked by this process.
#[derive(Debug)]
pub struct RunDirectory {
    runs: Arc<dyn Directories>,
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
        self.runs.disk(&self.name)
    }

    /// Removes it, once everything in it is settled. Damaged segments stay.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn remove(self) -> io::Result<()> {
        let mut disk = self.disk();
        let names = disk.names()?;
        for name in names.iter().filter(|name| segment::parse(name).is_some()) {
            disk.remove(name)?;
        }
        // No segment may come back without the head that says that it is settled.
        disk.sync_directory()?;
        for name in [crate::head::NAME, LABEL, LOCK] {
            match disk.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.runs.remove(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes a directory for this user alone, and those above it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Nanoseconds since 1970.
fn wall_nanos() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_left_to_the_next_once_it_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(&home.path().join("a/b"), false).unwrap();
        let first = data.begin("x\n").unwrap();
        let second = data.begin("y\n").unwrap();
        assert!(data.ended().unwrap().next().is_none(), "both run");
        let paths = [first.path().to_owned(), second.path().to_owned()];
        drop((first, second));
        let ended: Vec<_> = data.ended().unwrap().collect();
        let labels: Vec<_> = ended.iter().map(RunDirectory::label).collect();
        assert_eq!(labels, ["x\n", "y\n"]);
        assert!(data.ended().unwrap().next().is_none(), "they are locked");
        fs::write(paths[1].join("0-0000000000000001.log.damaged"), "kept").unwrap();
        fs::write(paths[0].join("0-0000000000000001.log"), "segment").unwrap();
        assert_eq!(data.kept().unwrap(), (2, 7), "labels and damaged segments do not wait");
        ended.into_iter().for_each(|run| run.remove().unwrap());
        assert_eq!(paths.map(|path| path.exists()), [false, true], "damaged segments stay");
        assert!(data.ended().unwrap().next().is_none());
    }

    #[test]
    fn directory_can_be_used_alone() {
        let home = tempfile::tempdir().unwrap();
        let alone = DataDirectory::open(home.path(), true).unwrap();
        let error = DataDirectory::open(home.path(), true).unwrap_err();
        assert!(matches!(error, DataError::Busy(_)), "{error}");
        drop(alone);
        DataDirectory::open(home.path(), true).unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DataDirectory::open(&file, false).unwrap_err();
        assert!(matches!(error, DataError::Disk(..)), "{error}");
    }
}
