//! Directories of the file system.

use std::any::Any;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::disk::{Directories, Disk};

/// Files that stay open: the open segment of each stream, and the head. An error of an earlier write is
/// reported to the descriptor that wrote.
const OPEN_FILES: usize = 8;

/// The largest file that is read whole: a segment with one request of the longest.
const MAX_BYTES: u64 = 80 << 20;

/// A directory. It must exist.
#[derive(Debug)]
pub struct FileDisk {
    directory: PathBuf,
    /// By last use.
    open: Vec<(String, File)>,
}

impl FileDisk {
    /// The files of this directory.
    #[must_use]
    pub const fn new(directory: PathBuf) -> Self {
        Self { directory, open: Vec::new() }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The file for writing, opened if it is not.
    fn writable(&mut self, name: &str, options: &mut OpenOptions) -> io::Result<&File> {
        let file = match self.open.iter().position(|(open, _)| open == name) {
            Some(position) => self.open.remove(position).1,
            None => options.write(true).open(self.at(name))?,
        };
        if self.open.len() >= OPEN_FILES {
            self.open.remove(0);
        }
        self.open.push((name.to_owned(), file));
        let last = self.open.last().ok_or(io::ErrorKind::NotFound)?;
        Ok(&last.1)
    }

    fn close(&mut self, name: &str) {
        self.open.retain(|(open, _)| open != name);
    }
}

impl Disk for FileDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.directory)?;
        // Names that are not UTF-8 are not ours.
        entries
            .filter_map(|entry| entry.map(|it| it.file_name().into_string().ok()).transpose())
            .collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.at(name);
        // A device may have no end.
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        File::open(self.at(name))?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.writable(name, OpenOptions::new().create_new(true).mode(0o600)).map(drop)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable(name, &mut OpenOptions::new())?.write_all_at(bytes, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.writable(name, &mut OpenOptions::new())?.sync_data()
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        sync_directory(&self.directory)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.close(from);
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.close(name);
        fs::remove_file(self.at(name))
    }
}

/// The directories in one directory.
#[derive(Debug)]
pub(crate) struct FileDirectories(pub(crate) PathBuf);

impl Directories for FileDirectories {
    fn names(&self) -> io::Result<Vec<String>> {
        FileDisk::new(self.0.clone()).names()
    }

    fn make(&self, name: &str) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.0.join(name))
    }

    fn lock(&self, name: &str, file: &str) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let held = lock(&self.0.join(name).join(file))?;
        Ok(held.map(|held| Box::new(held) as Box<dyn Any + Send + Sync>))
    }

    fn disk(&self, name: &str) -> Box<dyn Disk + Send> {
        Box::new(FileDisk::new(self.0.join(name)))
    }

    fn sync(&self) -> io::Result<()> {
        sync_directory(&self.0)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(name))
    }
}

/// Locks a file until it is closed; `None` if another process has locked it.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
