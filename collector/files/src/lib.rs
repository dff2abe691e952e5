//! Reads regular files of limited size, without ever waiting for them.
//!
//! Opening a FIFO blocks until it has a writer, and a device never ends. Files are therefore opened
//! without blocking, and what was opened is checked, not what its path named before. Must not depend
//! on what the files are.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Whether a symbolic link is followed if it is the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is followed.
    Follow,
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
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, links == Links::Reject);
    let file = File::from(openat(dir, path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
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
