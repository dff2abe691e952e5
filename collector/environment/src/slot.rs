//! The slot of a live run among those on this machine at once, and the GPUs that it exports as hardware.
//!
//! Series of hardware are those of the machine and a slot, not of a job, so that jobs after one another continue them.
//! Runs at once take different slots, and each GPU is exported by one of them. Both are locks on files, which the
//! kernel releases once a process has ended, however it did.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;

/// Where directories belong to the running system, under the same path for all that share its host name.
const RUNTIME: &str = "/run";

/// A machine does not have so many runs at once.
const MAX_SLOTS: u32 = 1_024;

/// A slot, and the GPUs that are exported with it.
#[derive(Debug)]
pub struct Slot {
    directory: OwnedFd,
    name: String,
    _lock: File,
    gpus: BTreeMap<String, File>,
}

impl Slot {
    /// Takes the first free slot, in the first usable directory: that of `RUNTIME_DIRECTORY`, which systemd sets,
    /// `/run/phasemeter`, `XDG_RUNTIME_DIR/phasemeter`, or one of this user in `/tmp`. `lookup` returns the value of
    /// a variable.
    ///
    /// # Errors
    /// Returns the error of the last directory if none can be used.
    pub fn take(lookup: impl Fn(&str) -> Option<OsString>) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let absolute = |name: &str| lookup(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let directories = [
            absolute("RUNTIME_DIRECTORY"),
            Some(Path::new(RUNTIME).join("phasemeter")),
            absolute("XDG_RUNTIME_DIR").map(|directory| directory.join("phasemeter")),
            Some(PathBuf::from(format!("/tmp/phasemeter-{user}"))),
        ];
        let mut result = Err(io::ErrorKind::NotFound.into());
        for directory in directories.into_iter().flatten() {
            result = Self::take_in(&directory);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Takes the first free slot of a directory, which is created if it does not exist.
    fn take_in(path: &Path) -> io::Result<Self> {
        let (directory, place) = open_directory(path)?;
        for number in 0..MAX_SLOTS {
            if let Some(lock) = lock(&directory, &format!("phasemeter-slot-{number}.lock"))? {
                let name = format!("{place}#{number}");
                return Ok(Self { directory, name, _lock: lock, gpus: BTreeMap::new() });
            }
        }
        Err(io::Error::other("all slots are taken"))
    }

    /// What identifies it on this machine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this run exports the GPU with this key as hardware: no other does, as far as known.
    pub fn take_gpu(&mut self, key: &str) -> bool {
        if self.gpus.contains_key(key) {
            return true;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let plain: String =
            key.chars().map(|c| if is_plain(c) { c } else { '_' }).take(128).collect();
        match lock(&self.directory, &format!("phasemeter-gpu-{plain}.lock")) {
            Ok(Some(lock)) => self.gpus.insert(key.to_owned(), lock).is_none(),
            Ok(None) => false,
            // More is exported rather than less.
            Err(_) => true,
        }
    }
}

/// Opens a directory that only this user can change, and returns what it is called: by its path; other than in
/// [`RUNTIME`] also by its number, since jobs of a batch system can have one each under the same path.
fn open_directory(path: &Path) -> io::Result<(OwnedFd, String)> {
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty())?;
    let status = fstat(&directory)?;
    let others = Mode::WGRP | Mode::WOTH;
    let is_own = status.st_uid == rustix::process::geteuid().as_raw();
    if !is_own || Mode::from_raw_mode(status.st_mode).intersects(others) {
        let problem = format!("{}: others can change this directory", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let place = match path.starts_with(RUNTIME) {
        true => path.display().to_string(),
        false => format!("{}@{}:{}", path.display(), status.st_dev, status.st_ino),
    };
    Ok((directory, place))
}

/// Locks a file of this directory, which is created if it does not exist; `None` if another process has.
fn lock(directory: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn runs_at_once_have_different_slots_and_share_no_gpu() {
        let dir = tempfile::tempdir().unwrap();
        let take = || Slot::take_in(dir.path()).unwrap();
        let mut first = take();
        let name = first.name().to_owned();
        assert!(first.take_gpu("GPU-1") && first.take_gpu("GPU-1"));
        let mut second = take();
        assert_ne!(second.name(), name);
        assert!(!second.take_gpu("GPU-1"));
        assert!(second.take_gpu("GPU-2") && second.take_gpu("00000000:04:00.0"));
        drop(first);
        assert!(second.take_gpu("GPU-1"), "it goes on with the GPU");
        assert_eq!(take().name(), name, "the next run has the slot of the first");
        let modes = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777);
        assert!(modes.into_iter().all(|mode| mode == 0o600));
    }

    #[test]
    fn directory_that_others_can_change_and_links_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let refused = |path: &Path| Slot::take_in(path).unwrap_err().kind();
        assert_eq!(refused(&open), io::ErrorKind::PermissionDenied);
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert!(Slot::take_in(&link).is_err());
        let (own, target) = (dir.path().join("own"), dir.path().join("target"));
        let mut slot = Slot::take_in(&own).unwrap();
        fs::write(&target, "kept").unwrap();
        symlink(&target, own.join("phasemeter-gpu-GPU-1.lock")).unwrap();
        assert!(slot.take_gpu("GPU-1"), "exported without a lock");
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        assert!(Slot::take_in(&dir.path().join("absent/own")).is_err());
    }

    #[test]
    fn directory_of_systemd_is_preferred() {
        let dir = tempfile::tempdir().unwrap();
        let lookup = |name: &str| (name == "RUNTIME_DIRECTORY").then(|| dir.path().into());
        let slot = Slot::take(lookup).unwrap();
        assert!(slot.name().starts_with(&dir.path().display().to_string()), "{}", slot.name());
    }
}
