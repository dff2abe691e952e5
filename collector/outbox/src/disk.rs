//! What the log needs of a disk.

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
