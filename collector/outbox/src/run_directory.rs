//! The data directory, and in it a directory per run, locked while the run lives:
//! `DATA/outbox/START-PID/{lock,label,head,*.log}`.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use thiserror::Error;

use crate::disk::Disk;
use crate::file_disk::{FileDisk, sync_directory};
use crate::segment;

const OUTBOX: &str = "outbox";
const REPORTS: &str = "reports";
const LOCK: &str = "lock";
const LABEL: &str = "label";
/// Bytes of a label at most.
const LABEL_BYTES: u64 = 64 << 10;
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
        Ok(Self { path: path.to_owned(), _lock: lock })
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
        Ok(Self { path: path.to_owned(), _lock: None })
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

    /// Makes the directory of a run that begins `now`, in nanoseconds since 1970. The label says what it is
    /// for.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn begin(&self, label: &str, now: u64) -> io::Result<RunDirectory> {
        let parent = self.path.join(OUTBOX);
        for attempt in 0..ATTEMPTS {
            let name = format!("{:016x}-{}", now.saturating_add(attempt), process::id());
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match prepare(&path, label).and_then(|lock| sync_directory(&parent).map(|()| lock)) {
                Ok(lock) => {
                    return Ok(RunDirectory { path, label: label.to_owned(), _lock: lock });
                }
                Err(error) => {
                    // Without a label, no other run would remove it.
                    let _ = fs::remove_dir_all(&path);
                    return Err(error);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
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
    pub fn ended(&self) -> io::Result<impl Iterator<Item = RunDirectory> + use<>> {
        let entries = fs::read_dir(self.path.join(OUTBOX))?;
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        Ok(paths.into_iter().filter_map(RunDirectory::of_ended))
    }
}

/// The directory of one run, locked by this process.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    label: String,
    _lock: File,
}

impl RunDirectory {
    fn of_ended(path: PathBuf) -> Option<Self> {
        let label_path = path.join(LABEL);
        let is_label = fs::metadata(&label_path).ok()?.len() <= LABEL_BYTES;
        let held = lock(&path.join(LOCK)).ok().flatten().filter(|_| is_label)?;
        let label = fs::read_to_string(&label_path).ok()?;
        Some(Self { path, label, _lock: held })
    }

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
    pub fn disk(&self) -> FileDisk {
        FileDisk::new(self.path.clone())
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
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }
}

/// Locks the directory of a run, and labels it.
fn prepare(path: &Path, label: &str) -> io::Result<File> {
    let lock = lock(&path.join(LOCK))?.ok_or(io::ErrorKind::WouldBlock)?;
    let mut file = create(&path.join(LABEL))?;
    file.write_all(label.as_bytes())?;
    file.sync_all()?;
    sync_directory(path)?;
    Ok(lock)
}

/// Makes a directory for this user alone, and those above it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Locks a file until it is closed; `None` if another process has locked it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_left_to_the_next_once_it_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDirectory::open(&home.path().join("a/b"), false).unwrap();
        let first = data.begin("x\n", 7).unwrap();
        let second = data.begin("y\n", 7).unwrap();
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
