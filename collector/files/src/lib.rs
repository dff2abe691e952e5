//! Files of others: reads regular ones of limited size, without ever waiting for them, and finds where an output may be
//! written.
//!
//! Opening a FIFO blocks until it has a writer, and a device never ends. Files are therefore opened
//! without blocking, and what was opened is checked, not what its path named before.

#![forbid(unsafe_code)]

mod output_place;
mod stamp;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

pub use output_place::{OutputPlace, Present};
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
pub use stamp::FileStamp;

/// Links of a path that are followed at most, as by Linux.
const MAX_LINKS: usize = 40;

/// Whether a symbolic link is followed if it is the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is followed.
    Follow,
    /// It is followed as long as it does not leave the directory, like all others of the path.
    Within,
    /// It is an error.
    Reject,
}

/// The contents of a regular file, also behind a link.
///
/// # Errors
/// Returns an error if it cannot be read, is not a regular file, or has more than `max` bytes.
pub fn read_file(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read(open(CWD, path, Links::Follow)?, max)
}

/// The text of a regular file, also behind a link.
///
/// # Errors
/// Returns an error as [`read_file`] does, and if it is not UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let text = String::from_utf8(read_file(path, max)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Opens a regular file. A relative path begins at `dir`.
///
/// # Errors
/// Returns an error if it cannot be opened or is not a regular file.
pub fn open(dir: BorrowedFd<'_>, path: &Path, links: Links) -> io::Result<File> {
    let file = match links {
        Links::Follow => open_any(dir, path, OFlags::empty())?,
        Links::Within => open_within(dir, path)?,
        Links::Reject => open_any(dir, path, OFlags::NOFOLLOW)?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

fn open_any(dir: BorrowedFd<'_>, path: impl Arg, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(dir, path, flags, Mode::empty())?))
}

/// Opens a file by name after name, so that no link leads out of the directory.
fn open_within(dir: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let mut entered: Vec<OwnedFd> = Vec::new();
    let (mut pending, mut links) = (names(path)?, 0);
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            entered.pop().ok_or_else(outside)?;
            continue;
        }
        let here = entered.last().map_or(dir, AsFd::as_fd);
        match readlinkat(here, &name, Vec::new()) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let mut target = names(Path::new(OsStr::from_bytes(target.as_bytes())))?;
                target.append(&mut pending);
                pending = target;
            }
            // It is not a link.
            Err(Errno::INVAL) if pending.is_empty() => {
                return open_any(here, &name, OFlags::NOFOLLOW);
            }
            Err(Errno::INVAL) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let next = openat(here, &name, flags, Mode::empty())?;
                entered.push(next);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::IsADirectory.into())
}

/// The names of a relative path.
fn names(path: &Path) -> io::Result<VecDeque<OsString>> {
    let name = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(Ok(component.as_os_str().to_owned())),
        Component::CurDir => None,
        Component::RootDir | Component::Prefix(_) => Some(Err(outside())),
    };
    path.components().filter_map(name).collect()
}

fn outside() -> io::Error {
    io::Error::other("a link that leaves the directory; copy the file into it")
}

/// Reads a file, or a stream, to its end.
///
/// # Errors
/// Returns an error if it cannot be read or has more than `max` bytes.
pub fn read(file: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let size = match max >> 20 {
            0 => format!("{max} bytes"),
            mebibytes => format!("{mebibytes} MiB"),
        };
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {size}")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{FileType, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::create_dir(at("directory")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink(at("fifo"), at("link-to-fifo")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let opens = |name: &str, links| {
            let is_open = open(CWD, &at(name), links).is_ok();
            if links == Links::Follow {
                assert_eq!(read_file(&at(name), 4).is_ok(), is_open, "{name}");
            }
            is_open
        };
        for (name, followed, rejected) in [
            ("file", true, true),
            ("link", true, false),
            ("directory", false, false),
            ("fifo", false, false),
            ("link-to-fifo", false, false),
            ("socket", false, false),
            ("/dev/null", false, false),
            ("/dev/zero", false, false),
            ("missing", false, false),
        ] {
            assert_eq!(opens(name, Links::Follow), followed, "{name}");
            assert_eq!(opens(name, Links::Reject), rejected, "{name}");
        }
    }

    /// As Kubernetes mounts a `ConfigMap`, and what a writer of the directory could link.
    #[test]
    fn links_are_followed_within_the_directory_only() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("dir");
        fs::create_dir_all(dir.join("..2026_01_01/sub")).unwrap();
        fs::write(home.path().join("secret"), "secret").unwrap();
        fs::write(dir.join("..2026_01_01/a.json"), "a").unwrap();
        for (target, link) in [
            ("..2026_01_01", "..data"),
            ("..data/a.json", "a.json"),
            ("..data/sub/../a.json", "up.json"),
            ("../secret", "parent.json"),
            ("..data/../../secret", "data.json"),
            ("/etc/hostname", "absolute.json"),
            ("..", "above"),
            ("above/secret", "twice.json"),
            ("loop.json", "loop.json"),
            ("nowhere", "nowhere.json"),
        ] {
            symlink(target, dir.join(link)).unwrap();
        }
        let root = rustix::fs::open(&dir, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let text = |name: &str| {
            let file = open(root.as_fd(), Path::new(name), Links::Within);
            file.map(|file| read(file, 9).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(text("a.json").unwrap(), b"a");
        assert_eq!(text("up.json").unwrap(), b"a");
        for name in ["parent.json", "data.json", "absolute.json", "twice.json"] {
            let error = text(name).unwrap_err();
            assert!(error.contains("leaves the directory"), "{name}: {error}");
        }
        for name in ["loop.json", "nowhere.json", "..data", "missing.json"] {
            text(name).unwrap_err();
        }
    }

    #[test]
    fn size_is_limited() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "1234").unwrap();
        let read = |max| read(open(CWD, &path, Links::Reject).unwrap(), max);
        assert_eq!(read(4).unwrap(), b"1234");
        assert_eq!(read(3).unwrap_err().to_string(), "larger than 3 bytes");
        assert_eq!(read_text(&path, 4).unwrap(), "1234");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
