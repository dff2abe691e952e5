//! Output files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process;

use phasemeter_files::{OutputPlace, Present};
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::OtlpFile;
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, fallocate, memfd_create};
use rustix::io::Errno;

use super::error::CommandError;

/// The mode of files that describe what runs here: only their owner can access them.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The mode of other files, less what the user masks.
pub(super) const PUBLIC: Mode = Mode::from_raw_mode(0o666);

/// Opens a file to be written from its beginning, and creates it with this mode if there is none.
///
/// # Errors
/// Returns an error if it cannot be written, or is a pipe that nothing reads.
pub(super) fn open_empty(path: &Path, mode: Mode) -> io::Result<File> {
    OutputPlace::find(path)?.open_empty(mode)
}

/// Creates a file for OTLP JSON. An existing file of this user keeps its permissions.
pub(super) fn create_otlp(path: &Path) -> Result<OtlpFile<BufWriter<File>>, CommandError> {
    let file = OutputPlace::find(path).and_then(|place| place.open_empty(PRIVATE));
    Ok(OtlpFile::new(BufWriter::new(file.map_err(CommandError::write(path))?)))
}

/// Rejects pipes and sockets: a run must not wait for their readers.
#[cfg_attr(not(feature = "full"), allow(dead_code))]
pub(super) fn reject_pipe(path: &Path) -> Result<(), CommandError> {
    let is_pipe = fs::metadata(path).is_ok_and(|file| {
        let kind = file.file_type();
        kind.is_fifo() || kind.is_socket()
    });
    if is_pipe { Err(CommandError::Pipe { path: path.to_owned() }) } else { Ok(()) }
}

/// A file that has either its old contents or all of the new ones.
#[cfg_attr(not(feature = "full"), allow(dead_code))]
#[derive(Clone, Debug)]
pub(super) struct ReplacedFile {
    path: PathBuf,
    mode: Mode,
}

#[cfg_attr(not(feature = "full"), allow(dead_code))]
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
        Ok(Self { path: path.to_owned(), mode: PRIVATE })
    }

    /// A file that other users may read.
    pub(super) fn public(path: &Path) -> Self {
        Self { path: path.to_owned(), mode: PUBLIC }
    }

    /// The same, with an instant in its name before the extension, as `-20261126T140000Z`.
    pub(super) fn dated(&self, at: Timestamp) -> Self {
        let mut name = self.path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{}", in_name(at)));
        if let Some(extension) = self.path.extension() {
            name.push(".");
            name.push(extension);
        }
        Self { path: self.path.with_file_name(name), mode: self.mode }
    }

    /// Checks that it can be written now, without changing it.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        let check = || {
            let place = OutputPlace::find(&self.path)?;
            match place.present()? {
                Present::Nothing => {
                    let beside = beside(&place);
                    place.create(&beside, self.mode).and_then(|_| place.remove(&beside))
                }
                Present::ForeignFile => place.check_replaceable(),
                Present::OwnFile | Present::Other => place.open().map(drop),
            }
        };
        check().map_err(|source| self.error(source))
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
        let create_new = |place: &OutputPlace, name: &OsString| place.create(name, self.mode);
        self.write_beside(create_new, write)
    }

    /// The contents are written to a file beside it, which then takes its name. A link stays one: the
    /// file at its end is replaced. A device is written, and a file whose directory allows no other
    /// is overwritten. `create_new` creates the file beside it.
    fn write_beside<T>(
        &self,
        create_new: impl FnOnce(&OutputPlace, &OsString) -> io::Result<File>,
        write: impl FnOnce(&File) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let failed = |source| self.error(source);
        let place = OutputPlace::find(&self.path).map_err(failed)?;
        if place.present().map_err(failed)? == Present::Other {
            return write(&place.open().map_err(failed)?);
        }
        let beside = beside(&place);
        // Left by a process that had the same ID and was killed.
        let _ = place.remove(&beside);
        match create_new(&place, &beside) {
            Ok(mut file) => {
                let written = write(&file).and_then(|result| {
                    let moved = file.sync_all().and_then(|()| {
                        // A mounted file, for example, cannot be renamed over.
                        place.rename_from(&beside).or_else(|_| overwrite(&place, &mut file))
                    });
                    // A crash of the machine must not lose the name.
                    place.sync();
                    moved.map(|()| result).map_err(failed)
                });
                // Left only if it was not renamed.
                let _ = place.remove(&beside);
                written
            }
            Err(error) if is_denied(&error) => {
                let flags = MemfdFlags::CLOEXEC;
                let memory = memfd_create(env!("CARGO_PKG_NAME"), flags).map_err(io::Error::from);
                let mut memory = File::from(memory.map_err(failed)?);
                let result = write(&memory)?;
                overwrite(&place, &mut memory).map_err(failed)?;
                Ok(result)
            }
            // A full disk, for example.
            Err(error) => Err(failed(error)),
        }
    }

    /// That writing failed.
    pub(super) fn error(&self, source: io::Error) -> CommandError {
        CommandError::write(&self.path)(source)
    }
}

/// An instant in the name of a file, as `20261126T140000Z`.
#[cfg_attr(not(feature = "full"), allow(dead_code))]
pub(super) fn in_name(at: Timestamp) -> String {
    let second = Timestamp::from_millis(at.whole_second() * 1_000).unwrap_or(at);
    Instant(second).to_string().replace(['-', ':'], "")
}

/// The name of the new file until it is complete. It has the beginning of a long name, so that it does
/// not exceed the maximum length of a name.
fn beside(place: &OutputPlace) -> OsString {
    let begin: String = place.name().to_string_lossy().chars().take(40).collect();
    format!(".{begin}.{}.tmp", process::id()).into()
}

/// Whether a directory allows no new file, though one in it may be writable.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Overwrites a file with another one. Its space is reserved before, so that a full disk changes
/// nothing.
fn overwrite(place: &OutputPlace, with: &mut File) -> io::Result<()> {
    let mut file = place.open_own()?;
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
        let no_inode = |_: &OutputPlace, _: &OsString| Err(io::Error::from_raw_os_error(28));
        report.write_beside(no_inode, |_| Ok(())).unwrap_err();
        assert_eq!(contents(), b"old");
        // In a directory that allows no other file it is overwritten, whole or not at all.
        let denied = |_: &OutputPlace, _: &OsString| Err(io::Error::from_raw_os_error(13));
        report.write_beside(denied, failing).map(|(): ()| ()).unwrap_err();
        assert_eq!(contents(), b"old");
        let new = |mut file: &File| {
            let written = file.write_all(b"new, and longer");
            written.map_err(|source| report.error(source))
        };
        report.write_beside(denied, new).unwrap();
        assert_eq!(contents(), b"new, and longer");
        // What a killed process with the same ID left.
        let left = beside(&OutputPlace::find(&path).unwrap());
        fs::write(dir.path().join(left), "left").unwrap();
        report.write(b"newer").unwrap();
        assert_eq!((contents(), fs::read_dir(dir.path()).unwrap().count()), (b"newer".to_vec(), 1));
    }
}
