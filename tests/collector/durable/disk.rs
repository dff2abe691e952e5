//! The data directory of a sidecar, on a disk that can be full.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Where a sidecar stores its data.
pub(super) struct Disk {
    pub(super) dir: PathBuf,
    pub(super) is_mounted: bool,
}

impl Disk {
    /// A directory, on a small file system if this user may mount one.
    pub(super) fn new(dir: PathBuf) -> Self {
        fs::create_dir(&dir).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(&dir);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        Self { dir, is_mounted }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Leaves no space. Returns whether that is possible.
    pub(super) fn fill(&self) -> bool {
        if self.is_mounted {
            let whole = vec![0; 8 << 20];
            // It is written as far as there is space.
            _ = fs::write(self.dir.join("ballast"), whole);
        }
        self.is_mounted
    }

    pub(super) fn clear(&self) {
        _ = fs::remove_file(self.dir.join("ballast"));
    }

    /// The files of the store that have data.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.data().join("outbox")).into_iter().flatten().flatten();
        let files = runs.flat_map(|run| fs::read_dir(run.path()).into_iter().flatten().flatten());
        let files = files.map(|file| file.path());
        let mut files: Vec<_> =
            files.filter(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0)).collect();
        files.sort();
        files
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        }
    }
}
