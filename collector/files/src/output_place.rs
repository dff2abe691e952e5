//! Where an output file is: its directory, opened, and its name there.
//!
//! In a directory that others can write, such as `/tmp`, a name may be theirs: a link to a file of this user,
//! or a file that they can read. So only links of this user and of root are followed, files of others are
//! replaced and never written, and all is done in the directory that was opened.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, ftruncate, openat,
    readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};

/// Links of a path that are followed at most, as by Linux.
const MAX_LINKS: usize = 40;

/// A directory of others has these bits of its mode.
const WRITTEN_BY_OTHERS: u32 = 0o022;

/// The directory of an output file and its name.
#[derive(Debug)]
pub struct OutputPlace {
    directory: OwnedFd,
    name: OsString,
    /// The user of this process.
    user: Uid,
}

/// What has the name of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// Nothing has it.
    Nothing,
    /// A file that only this user, or root, can have put there.
    OwnFile,
    /// A file of another user, or one that has other names, in a directory that others can write.
    ForeignFile,
    /// A device, for example.
    Other,
}

impl OutputPlace {
    /// Follows the links of a path.
    ///
    /// # Errors
    /// Returns an error if a directory does not exist, or a link is one of another user.
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::find_as(path, geteuid())
    }

    fn find_as(path: &Path, user: Uid) -> io::Result<Self> {
        let mut directory = open_directory(CWD, OsStr::new("."))?;
        let mut pending: VecDeque<OsString> = components(path);
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            let is_last = pending.is_empty();
            match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(link) if kind(&link).is_symlink() => {
                    reject_foreign(&link, user, &name)?;
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = readlinkat(&directory, &name, Vec::new())?.into_bytes();
                    let mut target = components(Path::new(&OsString::from_vec(target)));
                    target.append(&mut pending);
                    pending = target;
                }
                Ok(_) | Err(Errno::NOENT) if is_last => return Ok(Self { directory, name, user }),
                Ok(_) => directory = open_directory(&directory, &name)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::IsADirectory.into())
    }

    /// What has the name now.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read.
    pub fn present(&self) -> io::Result<Present> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if kind(&status).is_file() => self.ownership(&status),
            Ok(_) => Ok(Present::Other),
            Err(Errno::NOENT) => Ok(Present::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether another file can take the name of what is present, as far as that can be known.
    ///
    /// # Errors
    /// Returns an error if it cannot, or if there is nothing.
    pub fn check_replaceable(&self) -> io::Result<()> {
        let status = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let directory = fstat(&self.directory)?;
        let is_sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
        let is_owner = [status.st_uid, directory.st_uid].contains(&self.user.as_raw());
        if is_sticky && !is_owner && !self.user.is_root() { Err(foreign_file()) } else { Ok(()) }
    }

    /// Opens what is present for writing, without changing it, and without waiting for a reader.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn open(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, &self.name, flags, Mode::empty())?);
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        Ok(file)
    }

    /// Opens it to be written from its beginning, and creates it with this mode if there is none. A file of
    /// another user is replaced by a new one.
    ///
    /// # Errors
    /// Returns an error if it cannot be written or replaced.
    pub fn open_empty(&self, mode: Mode) -> io::Result<File> {
        match self.present()? {
            Present::Nothing => self.create(&self.name, mode),
            Present::Other => self.open(),
            Present::OwnFile => {
                let file = self.open()?;
                match self.ownership(&fstat(&file)?)? {
                    Present::OwnFile => ftruncate(&file, 0)?,
                    // It was replaced meanwhile.
                    _ => return Err(foreign_file()),
                }
                Ok(file)
            }
            Present::ForeignFile => {
                self.check_replaceable()?;
                self.remove(&self.name)?;
                self.create(&self.name, mode)
            }
        }
    }

    /// Opens what is present for writing, if it is a file of this user.
    ///
    /// # Errors
    /// Returns an error if it is not one, or cannot be written.
    pub fn open_own(&self) -> io::Result<File> {
        let file = self.open()?;
        match self.ownership(&fstat(&file)?)? {
            Present::OwnFile => Ok(file),
            _ => Err(foreign_file()),
        }
    }

    /// Creates a file of any name in the directory, which must not exist.
    ///
    /// # Errors
    /// Returns an error if it exists, or cannot be created.
    pub fn create(&self, name: &OsStr, mode: Mode) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, name, flags, mode)?))
    }

    /// Removes a file of any name in the directory.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// Gives the file of this name in the directory the name of the output.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    pub fn rename_from(&self, name: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.directory, name, &self.directory, &self.name)?)
    }

    /// Stores the names in the directory, if its file system does that: not all do.
    pub fn sync(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.directory, ".", flags, Mode::empty());
        let _ = directory.map_err(io::Error::from).and_then(|it| File::from(it).sync_all());
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    fn ownership(&self, file: &Stat) -> io::Result<Present> {
        if !kind(file).is_file() {
            return Ok(Present::Other);
        }
        let is_shared =
            || -> io::Result<bool> { Ok(fstat(&self.directory)?.st_mode & WRITTEN_BY_OTHERS != 0) };
        // Another name may have been added by anyone.
        let is_own = is_trusted(file, self.user) && (file.st_nlink == 1 || !is_shared()?);
        Ok(if is_own { Present::OwnFile } else { Present::ForeignFile })
    }
}

/// The names on the way of a path, beginning at the root if it is absolute.
fn components(path: &Path) -> VecDeque<OsString> {
    let is_name = |it: &Component<'_>| !matches!(it, Component::CurDir);
    path.components().filter(is_name).map(|it| it.as_os_str().to_owned()).collect()
}

fn open_directory(at: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

const fn kind(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

/// Whether it belongs to this user or to root, which can do anything.
fn is_trusted(status: &Stat, user: Uid) -> bool {
    status.st_uid == user.as_raw() || status.st_uid == 0
}

fn reject_foreign(link: &Stat, user: Uid, name: &OsStr) -> io::Result<()> {
    if is_trusted(link, user) {
        return Ok(());
    }
    let problem = format!(
        "{} is a link of another user; remove it, or name the file that it leads to",
        name.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

fn foreign_file() -> io::Error {
    let problem = "the file belongs to another user; remove it, or choose another name";
    io::Error::new(io::ErrorKind::PermissionDenied, problem)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use rustix::fs::{FileType, Gid, chownat, mknodat};

    use super::*;

    const MODE: Mode = Mode::RWXU;

    /// Gives files to another user than the one returned: as root, really; else by pretending to be one.
    fn foreign_to(paths: &[&Path]) -> Uid {
        let user = geteuid();
        if !user.is_root() {
            return Uid::from_raw(user.as_raw() + 1);
        }
        let (other, group) = (Uid::from_raw(12_345), Gid::from_raw(12_345));
        for path in paths {
            chownat(CWD, *path, Some(other), Some(group), AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
        user
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("own")).unwrap();
        fs::write(at("own/file"), "precious").unwrap();
        symlink("own/file", at("link")).unwrap();
        symlink(at("own"), at("directory")).unwrap();
        symlink("own/new", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let user = geteuid();
        for (path, name) in [("link", "file"), ("directory/file", "file"), ("dangling", "new")] {
            let place = OutputPlace::find_as(&at(path), user).unwrap();
            assert_eq!(place.name(), name, "{path}");
        }
        assert!(OutputPlace::find_as(&at("loop"), user).is_err());
        assert!(OutputPlace::find_as(&at("nowhere/file"), user).is_err());
        let paths = ["link", "directory", "dangling"].map(at);
        let user = foreign_to(&paths.each_ref().map(PathBuf::as_path));
        for path in ["link", "directory/file", "own/../directory/new", "dangling"] {
            let error = OutputPlace::find_as(&at(path), user).unwrap_err();
            assert!(error.to_string().contains("is a link of another user"), "{path}: {error}");
        }
        assert_eq!(fs::read(at("own/file")).unwrap(), b"precious");
        assert!(!at("own/new").exists());
    }

    #[test]
    fn files_of_others_are_replaced_and_never_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        fs::write(at("foreign"), "theirs").unwrap();
        fs::write(at("kept"), "ours").unwrap();
        // A second name of a file can be anyone's.
        fs::hard_link(at("kept"), at("hard")).unwrap();
        let mut theirs = File::options().read(true).open(at("foreign")).unwrap();
        let user = foreign_to(&[&at("foreign")]);
        for name in ["foreign", "hard"] {
            let place = OutputPlace::find_as(&at(name), user).unwrap();
            assert_eq!(place.present().unwrap(), Present::ForeignFile, "{name}");
            assert!(place.open_own().is_err(), "{name}");
            place.open_empty(MODE).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read(at(name)).unwrap(), b"new", "{name}");
        }
        assert_eq!(io::read_to_string(&mut theirs).unwrap(), "theirs");
        assert_eq!(fs::read(at("kept")).unwrap(), b"ours");
    }

    #[test]
    fn own_files_keep_their_permissions_and_nothing_waits_for_a_reader() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("own"), "old, and longer").unwrap();
        fs::set_permissions(at("own"), Permissions::from_mode(0o640)).unwrap();
        let place = OutputPlace::find(&at("own")).unwrap();
        assert_eq!(place.present().unwrap(), Present::OwnFile);
        place.open_empty(MODE).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(at("own")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("own")).unwrap().permissions().mode() & 0o777, 0o640);
        mknodat(CWD, at("fifo"), FileType::Fifo, MODE, 0).unwrap();
        OutputPlace::find(&at("fifo")).unwrap().open_empty(MODE).unwrap_err();
        let null = OutputPlace::find(Path::new("/dev/null")).unwrap();
        assert_eq!(null.present().unwrap(), Present::Other);
        null.open_empty(MODE).unwrap().write_all(b"x").unwrap();
    }
}
