//! Output files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use phasemeter_otlp::OtlpFile;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;

use super::error::CommandError;

/// Creates a file that only its owner can access: it describes what runs here. An existing file keeps
/// its permissions.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Creates a file for OTLP JSON.
pub(super) fn create_otlp(path: &Path) -> Result<OtlpFile<BufWriter<File>>, CommandError> {
    let file = create(path).map_err(|source| write_error(path, source))?;
    Ok(OtlpFile::new(BufWriter::new(file)))
}

/// Rejects pipes and sockets: a run must not wait for their readers.
#[cfg_attr(not(any(feature = "bill", feature = "live")), allow(dead_code))]
pub(super) fn reject_pipe(path: &Path) -> Result<(), CommandError> {
    let is_pipe = fs::metadata(path).is_ok_and(|file| {
        let kind = file.file_type();
        kind.is_fifo() || kind.is_socket()
    });
    if is_pipe { Err(CommandError::Pipe { path: path.to_owned() }) } else { Ok(()) }
}

/// A file that has either its old contents or all of the new ones.
#[cfg_attr(not(any(feature = "bill", feature = "live")), allow(dead_code))]
#[derive(Clone, Debug)]
pub(super) struct ReplacedFile(PathBuf);

#[cfg_attr(not(any(feature = "bill", feature = "live")), allow(dead_code))]
impl ReplacedFile {
    /// Checks that the file can be written, without changing it.
    pub(super) fn at(path: &Path) -> Result<Self, CommandError> {
        let file = Self::unchecked(path)?;
        file.check()?;
        Ok(file)
    }

    /// Rejects only what can never be such a file.
    pub(super) fn unchecked(path: &Path) -> Result<Self, CommandError> {
        reject_pipe(path)?;
        Ok(Self(path.to_owned()))
    }

    /// Checks that it can be written now, without changing it.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        let Self(path) = self;
        let checked = match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let beside = beside(path);
                create_new(&beside).and_then(|_| fs::remove_file(&beside))
            }
            opened => opened.map(drop),
        };
        checked.map_err(|source| self.error(source))
    }

    /// Replaces the contents.
    pub(super) fn write(&self, contents: &[u8]) -> Result<(), CommandError> {
        self.write_with(|mut file| file.write_all(contents).map_err(|source| self.error(source)))
    }

    /// Replaces the contents by what `write` writes. If there is an error, the old contents stay.
    pub(super) fn write_with<T>(
        &self,
        write: impl FnOnce(&File) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.write_beside(create_new, write)
    }

    /// The contents are written to a file beside it, which then takes its name. A link stays one: the
    /// file at its end is replaced. A device is written, and a file whose directory allows no other
    /// is overwritten. `create_new` creates the file beside it.
    fn write_beside<T>(
        &self,
        create_new: impl FnOnce(&Path) -> io::Result<File>,
        write: impl FnOnce(&File) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let failed = |source| self.error(source);
        let path = fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone());
        if fs::metadata(&path).is_ok_and(|file| !file.is_file()) {
            return write(&create(&path).map_err(failed)?);
        }
        let beside = beside(&path);
        // Left by a process that had the same ID and was killed.
        let _ = fs::remove_file(&beside);
        match create_new(&beside) {
            Ok(file) => {
                let written = write(&file).and_then(|result| {
                    let moved = file.sync_all().and_then(|()| {
                        // A mounted file, for example, cannot be renamed over.
                        fs::rename(&beside, &path)
                            .or_else(|_| overwrite(&path, &mut File::open(&beside)?))
                    });
                    // A crash of the machine must not lose the name.
                    sync_directory(&path);
                    moved.map(|()| result).map_err(failed)
                });
                // Left only if it was not renamed.
                let _ = fs::remove_file(&beside);
                written
            }
            Err(error) if is_denied(&error) => {
                let flags = MemfdFlags::CLOEXEC;
                let memory = memfd_create(env!("CARGO_PKG_NAME"), flags).map_err(io::Error::from);
                let mut memory = File::from(memory.map_err(failed)?);
                let result = write(&memory)?;
                overwrite(&path, &mut memory).map_err(failed)?;
                Ok(result)
            }
            // A full disk, for example.
            Err(error) => Err(failed(error)),
        }
    }

    /// That writing failed.
    pub(super) fn error(&self, source: io::Error) -> CommandError {
        write_error(&self.0, source)
    }
}

/// The name of the new file until it is complete. It has the beginning of a long name, so that it does
/// not exceed the maximum length of a name.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let begin: String = name.chars().take(40).collect();
    path.with_file_name(format!(".{begin}.{}.tmp", process::id()))
}

/// Whether a directory allows no new file, though one in it may be writable.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Stores the names in the directory of a file, if its file system does that: not all do.
fn sync_directory(path: &Path) {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new(".")));
    let _ = directory.and_then(|directory| directory.sync_all());
}

/// Overwrites a file with another one. Its space is reserved before, so that a full disk changes
/// nothing.
fn overwrite(path: &Path, with: &mut File) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let length = with.seek(SeekFrom::End(0))?;
    with.rewind()?;
    if length > 0 {
        // Other errors are of file systems that cannot reserve.
        let reserved = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length);
        if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
            return Err(error.into());
        }
    }
    io::copy(with, &mut file)?;
    file.set_len(length)?;
    file.sync_all()
}

/// Like [`create`], for a file that does not exist. Follows no link.
fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

fn write_error(path: &Path, source: io::Error) -> CommandError {
    CommandError::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn file_is_replaced_when_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let (report, link) = (ReplacedFile::at(&path).unwrap(), dir.path().join("link"));
        assert!(!path.exists());
        report.write(b"old, and longer").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = ReplacedFile::at(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old, and longer");
        // A reader of the old contents keeps them.
        let reader = File::open(&path).unwrap();
        again.write(b"new").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "old, and longer");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // A link stays one.
        symlink(&path, &link).unwrap();
        ReplacedFile::at(&link).unwrap().write(b"by link").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"by link");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        // So does a device.
        ReplacedFile::at(Path::new("/dev/null")).unwrap().write(b"x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn file_that_cannot_be_written_keeps_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        // As long as a name may be.
        let path = dir.path().join("r".repeat(255));
        let report = ReplacedFile::at(&path).unwrap();
        report.write(b"old").unwrap();
        let contents = || fs::read(&path).unwrap();
        let failing = |mut file: &File| {
            file.write_all(b"ne").map_err(|source| report.error(source))?;
            Err(report.error(io::Error::from_raw_os_error(28)))
        };
        // Neither a disk without space nor one without inodes.
        let error = report.write_with(failing).map(|(): ()| ()).unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        let no_inode = |_: &Path| Err(io::Error::from_raw_os_error(28));
        report.write_beside(no_inode, |_| Ok(())).unwrap_err();
        assert_eq!(contents(), b"old");
        // In a directory that allows no other file it is overwritten, whole or not at all.
        let denied = |_: &Path| Err(io::Error::from_raw_os_error(13));
        report.write_beside(denied, failing).map(|(): ()| ()).unwrap_err();
        assert_eq!(contents(), b"old");
        let new = |mut file: &File| {
            let written = file.write_all(b"new, and longer");
            written.map_err(|source| report.error(source))
        };
        report.write_beside(denied, new).unwrap();
        assert_eq!(contents(), b"new, and longer");
        // What a killed process with the same ID left.
        fs::write(beside(&path), "left").unwrap();
        report.write(b"newer").unwrap();
        assert_eq!((contents(), fs::read_dir(dir.path()).unwrap().count()), (b"newer".to_vec(), 1));
    }
}
