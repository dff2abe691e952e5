//! The data directory: the outboxes and journals of runs, and reports.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

use crate::disk::{Directories, Disk};
use crate::file_disk::{FileDirectories, lock, sync_directory};
use crate::limits::Limits;
use crate::run_directory::{RunDirectory, Runs};
use crate::segment;

const OUTBOX: &str = "outbox";
const JOURNALS: &str = "journals";
const REPORTS: &str = "reports";
const LOCK: &str = "lock";

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
    outbox: Runs,
    journals: Runs,
    own: Arc<dyn Directories>,
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
        [OUTBOX, JOURNALS].iter().try_for_each(|runs| make(&path.join(runs))).map_err(failed)?;
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
        Self {
            path: path.to_owned(),
            outbox: Runs::of_files(path.join(OUTBOX)),
            journals: Runs::of_files(path.join(JOURNALS)),
            own: Arc::new(FileDirectories(path.to_owned())),
            limits: Limits::default(),
            clock: wall_nanos,
            _lock: lock,
        }
    }

    /// One whose outboxes, journals and [files](Self::files) are elsewhere than in a file system. `clock`: the time in nanoseconds since 1970.
    #[must_use]
    pub fn new(
        path: &Path,
        [outboxes, journals, own]: [Arc<dyn Directories>; 3],
        limits: Limits,
        clock: fn() -> u64,
    ) -> Self {
        let outbox = Runs::new(outboxes, path.join(OUTBOX));
        let journals = Runs::new(journals, path.join(JOURNALS));
        Self { path: path.to_owned(), outbox, journals, own, limits, clock, _lock: None }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files in it, beside the directories of runs.
    #[must_use]
    pub fn files(&self) -> Box<dyn Disk + Send> {
        self.own.disk("")
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

    /// The journals in it.
    #[must_use]
    pub const fn journals(&self) -> &Runs {
        &self.journals
    }

    /// Makes the directory of a run that begins now. The label says what it is for.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn begin(&self, label: &str) -> io::Result<RunDirectory> {
        self.outbox.begin(label, self.now())
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

    /// Reads the payloads that runs have stored last: of each stream, those of its two newest segments, settled ones too.
    /// They are durable once this returns.
    ///
    /// # Errors
    /// Returns an error if a directory or file cannot be read.
    pub fn read_newest(&self, read: impl FnMut(&[u8])) -> io::Result<()> {
        self.outbox.read_newest(read)
    }

    /// The directories of runs that ended, oldest first; see [`Runs::ended`].
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read. What cannot be locked is left out.
    pub fn ended(&self) -> io::Result<impl Iterator<Item = RunDirectory> + use<>> {
        self.outbox.ended()
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
