//! Output files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use phasemeter_otlp::OtlpFile;

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
#[derive(Debug)]
pub(super) struct ReplacedFile(PathBuf);

#[cfg_attr(not(any(feature = "bill", feature = "live")), allow(dead_code))]
impl ReplacedFile {
    /// Checks that the file can be written, without changing it.
    pub(super) fn at(path: &Path) -> Result<Self, CommandError> {
        reject_pipe(path)?;
        let file = Self(path.to_owned());
        let checked = match OpenOptions::new().write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let beside = file.beside();
                create_new(&beside).and_then(|_| fs::remove_file(&beside))
            }
            opened => opened.map(drop),
        };
        checked.map_err(|source| write_error(path, source))?;
        Ok(file)
    }

    /// Replaces the contents.
    pub(super) fn write(&self, contents: &[u8]) -> Result<(), CommandError> {
        self.write_with(|mut file| file.write_all(contents).map_err(|source| self.error(source)))
    }

    /// Replaces the contents by what `write` writes: to a file beside it, which is then renamed. If the
    /// directory does not allow that, or this is a device or a link, the file is overwritten. If there
    /// is an error, the old contents stay.
    pub(super) fn write_with<T>(
        &self,
        write: impl FnOnce(&File) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let Self(path) = self;
        let is_replaceable = match fs::symlink_metadata(path) {
            Ok(file) => file.is_file(),
            Err(_) => true,
        };
        let beside = self.beside();
        let created = if is_replaceable { create_new(&beside).ok() } else { None };
        match created {
            Some(file) => {
                let written = write(&file).and_then(|result| {
                    let moved = fs::rename(&beside, path).or_else(|_| overwrite(path, &beside));
                    moved.map(|()| result).map_err(|source| self.error(source))
                });
                // Left only if it was not renamed.
                let _ = fs::remove_file(&beside);
                written
            }
            None => write(&create(path).map_err(|source| self.error(source))?),
        }
    }

    /// That writing failed.
    pub(super) fn error(&self, source: io::Error) -> CommandError {
        write_error(&self.0, source)
    }

    /// The name of the new file until it is complete.
    fn beside(&self) -> PathBuf {
        let Self(path) = self;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!(".{name}.{}.tmp", process::id()))
    }
}

/// Overwrites the first file with the second.
fn overwrite(path: &Path, with: &Path) -> io::Result<()> {
    io::copy(&mut File::open(with)?, &mut create(path)?).map(drop)
}

/// Like [`create`], for a file that does not exist. Follows no link.
fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
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
}
