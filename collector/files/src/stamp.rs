//! What shows that a file has changed. It is polled, which works on every file system, and through the links of a mounted
//! `ConfigMap`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The inode, size and modification time of a file, of what a link leads to; `None` without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp(Option<(u64, u64, i64, i64)>);

impl FileStamp {
    /// That of a file as it is now.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let stamp = |it: fs::Metadata| (it.ino(), it.size(), it.mtime(), it.mtime_nsec());
        Self(fs::metadata(path).ok().map(stamp))
    }
}
