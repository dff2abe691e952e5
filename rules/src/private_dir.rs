//! A directory that no other user can change, and its files.
//!
//! A user who can write a directory, or one above it, can replace what is in it. As in ssh, the directory
//! must therefore belong to this user, each above it to this user or root, and none may be writable by
//! others, except that a sticky directory like `/tmp` may be above it. The directory is opened once;
//! files are opened relative to it and checked once they are open, so that nothing can be exchanged
//! between check and use.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf, absolute};

use phasemeter_files::Links;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::process::geteuid;

/// Write permission for the group and others.
const WRITABLE: u32 = 0o022;
/// Any permission for the group and others.
const ACCESSIBLE: u32 = 0o077;
/// Entries may only be replaced by their owners.
const STICKY: u32 = 0o1000;

/// A directory that no other user can change.
#[derive(Debug)]
pub(crate) struct PrivateDir(OwnedFd);

/// Why a directory is not private.
#[derive(Debug, thiserror::Error)]
pub enum PrivateDirError {
    /// It, or one above it, cannot be opened or created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another user owns it, or one above it.
    #[error("{}: owned by user {owner}, expected {expected}", path.display())]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user.
        expected: u32,
    },
    /// Other users can write it, or one above it.
    #[error("{}: writable by other users; remove that permission", .0.display())]
    Writable(PathBuf),
}

/// The position of a directory in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Above,
    Last,
}

impl PrivateDir {
    /// Opens a directory, and creates it if needed.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or is not private.
    pub(crate) fn open(path: &Path) -> Result<Self, PrivateDirError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| PrivateDirError::Io { path, source }
        };
        let path = resolve(path).map_err(failed(path))?;
        // From the root down: only this user and root can change what has been checked.
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        for prefix in above {
            let metadata = find_or_create(prefix).map_err(failed(prefix))?;
            let position = if prefix == path { Position::Last } else { Position::Above };
            check(prefix, &metadata, position, geteuid().as_raw())?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty());
        let dir = File::from(dir.map_err(|errno| failed(&path)(errno.into()))?);
        let opened = dir.metadata().map_err(failed(&path))?;
        check(&path, &opened, Position::Last, geteuid().as_raw())?;
        Ok(Self(dir.into()))
    }

    /// Reads a file that only this user can access.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, is larger than `max` bytes, is not a regular file, or if
    /// other users can access it.
    pub(crate) fn read(&self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        let file = phasemeter_files::open(self.0.as_fd(), Path::new(name), Links::Reject)?;
        let metadata = file.metadata()?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & ACCESSIBLE != 0 {
            let error = "other users can access it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
        }
        phasemeter_files::read(file, max)
    }

    /// Writes a file atomically, accessible only by this user.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let part = format!("{name}.{}.part", std::process::id());
        let write = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mut file = File::from(openat(&self.0, &part, flags, Mode::RUSR | Mode::WUSR)?);
            file.write_all(bytes)?;
            Ok(renameat(&self.0, &part, &self.0, name)?)
        };
        let written = write();
        if written.is_err() {
            // It may also be left over from a process with the same ID.
            self.remove(&part);
        }
        written
    }

    /// Removes a file. Another process may have removed it already.
    pub(crate) fn remove(&self, name: &str) {
        let _ = unlinkat(&self.0, name, AtFlags::empty());
    }

    /// The names of all files with their modification times, oldest first.
    pub(crate) fn by_age(&self) -> Vec<String> {
        let Ok(entries) = Dir::read_from(&self.0) else { return Vec::new() };
        let names =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
        let aged = names.filter_map(|name| {
            let stat = statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some((stat.st_mtime, stat.st_mtime_nsec, name))
        });
        let mut aged: Vec<_> = aged.collect();
        aged.sort();
        aged.into_iter().map(|(_, _, name)| name).collect()
    }
}

/// The absolute path without symbolic links. The last directories may be missing.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let path = absolute(path)?;
    for existing in path.ancestors() {
        match existing.canonicalize() {
            Ok(real) => {
                let missing = path.strip_prefix(existing).map_err(io::Error::other)?;
                return Ok(real.components().chain(missing.components()).collect());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The metadata of a directory, which is created if it is missing.
fn find_or_create(path: &Path) -> io::Result<Metadata> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            fs::symlink_metadata(path)
        }
        found => found,
    }
}

fn check(
    path: &Path,
    metadata: &Metadata,
    position: Position,
    user: u32,
) -> Result<(), PrivateDirError> {
    if !metadata.is_dir() {
        let (path, source) = (path.to_owned(), io::ErrorKind::NotADirectory.into());
        return Err(PrivateDirError::Io { path, source });
    }
    check_owner(path, metadata.uid(), metadata.mode(), position, user)
}

fn check_owner(
    path: &Path,
    owner: u32,
    mode: u32,
    position: Position,
    user: u32,
) -> Result<(), PrivateDirError> {
    let above = position == Position::Above;
    if owner != user && !(above && owner == 0) {
        return Err(PrivateDirError::Owner { path: path.to_owned(), owner, expected: user });
    }
    if mode & WRITABLE != 0 && !(above && mode & STICKY != 0) {
        return Err(PrivateDirError::Writable(path.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn owner_and_mode_are_those_that_ssh_accepts() {
        const USER: u32 = 1_000;
        let error =
            |owner, mode, position| match check_owner(Path::new("/d"), owner, mode, position, USER)
            {
                Ok(()) => "",
                Err(PrivateDirError::Owner { .. }) => "owner",
                Err(PrivateDirError::Writable(_)) => "writable",
                Err(PrivateDirError::Io { .. }) => "io",
            };
        use Position::{Above, Last};
        for (owner, mode, above, last) in [
            (USER, 0o40700, "", ""),
            (USER, 0o40755, "", ""),
            (USER, 0o40775, "writable", "writable"),
            (USER, 0o40757, "writable", "writable"),
            (USER, 0o41777, "", "writable"),
            (0, 0o40755, "", "owner"),
            (0, 0o41777, "", "owner"),
            (0, 0o40777, "writable", "owner"),
            (1_001, 0o40700, "owner", "owner"),
            (1_001, 0o41777, "owner", "owner"),
        ] {
            assert_eq!(error(owner, mode, Above), above, "{owner} {mode:o} above");
            assert_eq!(error(owner, mode, Last), last, "{owner} {mode:o} last");
        }
    }

    #[test]
    fn directory_is_created_for_this_user_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        let dir = PrivateDir::open(&path).unwrap();
        dir.replace("name", b"bytes").unwrap();
        for (path, mode) in [(home.path().join("a"), 0o700), (path.join("name"), 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode);
        }
        assert_eq!(dir.read("name", 5).unwrap(), b"bytes");
        assert_eq!(dir.by_age().iter().filter(|name| !name.starts_with('.')).count(), 1);
        dir.remove("name");
        assert_eq!(dir.read("name", 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn writable_directory_is_rejected_before_anything_is_created_in_it() {
        let home = tempfile::tempdir().unwrap();
        chmod(home.path(), 0o777);
        let below = home.path().join("below");
        for path in [home.path(), &below] {
            let error = PrivateDir::open(path).unwrap_err();
            assert!(matches!(error, PrivateDirError::Writable(_)), "{error}");
        }
        assert!(!below.exists());
        chmod(home.path(), 0o700);
        PrivateDir::open(&below).unwrap();
    }

    #[test]
    fn directory_stays_the_opened_one_if_its_path_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (path, other) = (home.path().join("dir"), home.path().join("other"));
        let dir = PrivateDir::open(&path).unwrap();
        PrivateDir::open(&other).unwrap().replace("key", b"other").unwrap();
        fs::rename(&path, home.path().join("gone")).unwrap();
        symlink(&other, &path).unwrap();
        assert_eq!(dir.read("key", 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_that_other_users_control_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open(&home.path().join("dir")).unwrap();
        let at = |name: &str| home.path().join("dir").join(name);
        dir.replace("key", b"key").unwrap();
        symlink(at("key"), at("link")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        dir.replace("readable", b"key").unwrap();
        chmod(&at("readable"), 0o644);
        for name in ["link", "fifo", "readable"] {
            assert!(dir.read(name, 5).is_err(), "{name}");
        }
        assert!(dir.read("key", 3).is_ok());
    }
}
