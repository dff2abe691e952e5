//! What the log needs of a disk, and what the data directory needs.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::io;

/// The files of one directory.
///
/// What is written survives a power loss once [`Disk::sync`] has returned, and a new name once
/// [`Disk::sync_directory`] has. Before, any part of it may survive, in any order.
pub trait Disk {
    /// The names of all files.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The contents of a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// `length` bytes of a file, or fewer at its end.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>>;

    /// Creates an empty file.
    ///
    /// # Errors
    /// Returns an error if it exists or cannot be created.
    fn create(&mut self, name: &str) -> io::Result<()>;

    /// Writes all bytes at an offset of a file that exists.
    ///
    /// # Errors
    /// Returns an error if not all bytes were written.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written to a file durable.
    ///
    /// # Errors
    /// Returns an error if anything of it may not be durable. A second call proves nothing: the system may
    /// have discarded what it could not write.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Makes created, renamed and removed names durable.
    ///
    /// # Errors
    /// Returns an error if they may not be.
    fn sync_directory(&mut self) -> io::Result<()>;

    /// Renames a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

impl Debug for dyn Disk + Send {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

impl Disk for Box<dyn Disk + Send> {
    fn names(&self) -> io::Result<Vec<String>> {
        (**self).names()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        (**self).read(name)
    }

    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        (**self).read_at(name, offset, length)
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        (**self).create(name)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write_at(name, offset, bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        (**self).sync(name)
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        (**self).sync_directory()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        (**self).rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        (**self).remove(name)
    }
}

/// The directories of runs, side by side.
pub trait Directories: Debug + Send + Sync {
    /// The names of all.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes a directory. Its name is durable after [`Directories::sync`].
    ///
    /// # Errors
    /// Returns an error if it exists or cannot be made.
    fn make(&self, name: &str) -> io::Result<()>;

    /// Locks a directory by a file in it, until what is returned is dropped; `None` if another process has locked it.
    ///
    /// # Errors
    /// Returns an error if it cannot be locked.
    fn lock(&self, name: &str, file: &str) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;

    /// The files of a directory; without a name, those beside all.
    fn disk(&self, name: &str) -> Box<dyn Disk + Send>;

    /// Makes names that were made or removed durable.
    ///
    /// # Errors
    /// Returns an error if they may not be.
    fn sync(&self) -> io::Result<()>;

    /// Removes a directory.
    ///
    /// # Errors
    /// Returns an error if it has files or cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;
}
