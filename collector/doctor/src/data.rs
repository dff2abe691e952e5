//! The data directory, and the disk that it is on.

use std::fs;
use std::io;
use std::path::Path;
use std::process;

use phasemeter_files::read_text;
use phasemeter_otlp::delivery::DataDirectory;
use phasemeter_terminal::number::{counted, tenths_of};
use rustix::fs::{Access, access, statvfs};

use super::findings::{Findings, Topic};

/// Free space that a run may use for its requests, in bytes.
const SPACE: u64 = 256 << 20;

const MOUNTS: &str = "/proc/self/mountinfo";
const MAX_MOUNTS: u64 = 4 << 20;

/// File systems that end with the machine or the container.
const VOLATILE: [&str; 3] = ["tmpfs", "ramfs", "overlay"];

/// Why a run could not keep requests in a directory, which it makes if it does not exist; `None` if it can. What this
/// makes to find out is removed again.
#[must_use]
pub fn refusal(path: &Path) -> Option<io::Error> {
    let trial = existing(path).join(format!(".phasemeter-doctor-{}", process::id()));
    let made = fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial));
    // The directory of its runs may be another user's.
    let outbox = DataDirectory::look(path, false).ok()?.outbox();
    let is_open = || match outbox.exists() {
        true => access(&outbox, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK),
        false => Ok(()),
    };
    made.and_then(|()| Ok(is_open()?)).err()
}

/// A path, or what exists of it.
fn existing(path: &Path) -> &Path {
    let existing = path.ancestors().find(|path| path.exists());
    existing.unwrap_or(Path::new("."))
}

/// Describes a directory that can be written.
pub fn describe(directory: &DataDirectory, findings: &mut Findings) {
    let (path, place) = (directory.path(), existing(directory.path()));
    let mounts = read_text(Path::new(MOUNTS), MAX_MOUNTS).unwrap_or_default();
    let whole = fs::canonicalize(place);
    let system = file_system(&mounts, whole.as_deref().unwrap_or(place));
    let system = system.unwrap_or("unknown file system");
    findings.fact(Topic::Data, format!("{}: writable ({system})", path.display()));
    if place != path {
        findings.fact(Topic::Data, "does not exist yet; a run makes it");
    }
    if VOLATILE.contains(&system) {
        findings.note(format!(
            "data directory: {} is of {system}, which ends with the container or machine; mount a volume there",
            path.display()
        ));
    }
    if let Ok(space) = statvfs(place) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        findings.fact(Topic::Data, format!("{} GiB free", tenths_of(free, 1 << 30)));
        if free < SPACE {
            findings.note(format!(
                "data directory: {} MiB free; requests of a longer outage wait in memory; free some",
                free >> 20
            ));
        }
    }
    match directory.kept() {
        Ok((runs, bytes)) => findings.fact(
            Topic::Data,
            format!("{} keep {} KiB", counted(runs, "run"), tenths_of(bytes, 1 << 10)),
        ),
        Err(error) => findings.note(format!(
            "data directory: what it keeps cannot be read: {error}; check its permissions"
        )),
    }
}

/// The type of the file system that a path is on, by the mounts of this process.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (place, system) = line.split_once(" - ")?;
        let point = place.split(' ').nth(4)?;
        path.starts_with(point).then_some((point.len(), system.split(' ').next()?))
    };
    // Of several mounts on one point, the last one is seen.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, system)| system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_mount_has_the_file_system() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      23 22 0:5 / /var/lib rw,relatime shared:7 - xfs /dev/sdb rw\n\
                      24 22 0:6 / /var/lib rw - tmpfs none rw\n\
                      25 22 0:7 / /variable rw - proc none rw\n\
                      torn";
        let system = |path| file_system(mounts, Path::new(path));
        assert_eq!(system("/var/lib/phasemeter"), Some("tmpfs"));
        assert_eq!(system("/var/library"), Some("ext4"));
        assert_eq!(file_system("", Path::new("/")), None);
    }
}
