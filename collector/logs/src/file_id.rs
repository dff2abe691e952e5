//! Identity of a file: the same for every path, symbolic link and hard link that leads to it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identifies a file, pipe or device while it exists: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that a path leads to, across symbolic links.
    ///
    /// # Errors
    /// Returns an error if there is no such file, or it cannot be examined.
    pub fn from_path(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// The file with this metadata, of an open file or of a path across symbolic links.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn file_is_identified_by_any_spelling() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.csv");
        fs::write(&file, "a").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        symlink(&file, dir.path().join("soft.csv")).unwrap();
        fs::hard_link(&file, dir.path().join("hard.csv")).unwrap();
        let id = FileId::from_path(&file).unwrap();
        for spelling in ["./a.csv", "sub/../a.csv", "soft.csv", "hard.csv"] {
            assert_eq!(FileId::from_path(&dir.path().join(spelling)).unwrap(), id, "{spelling}");
        }
        fs::copy(&file, dir.path().join("copy.csv")).unwrap();
        assert_ne!(FileId::from_path(&dir.path().join("copy.csv")).unwrap(), id);
        assert!(FileId::from_path(&dir.path().join("none.csv")).is_err());
    }
}
