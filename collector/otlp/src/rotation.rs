//! Values from files that are replaced while the program runs, such as certificates and tokens: they are
//! read again after a change, even if a link leads to another file.

use std::fmt::{self, Debug, Display, Formatter};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};

/// A value that follows its files. If they cannot be used, it keeps its last value.
pub struct Rotating<T> {
    /// What it is, in the plural, for logs.
    what: &'static str,
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    last: Mutex<(FileStamps, Arc<T>)>,
}

impl<T> Rotating<T> {
    /// Reads the value from these files.
    ///
    /// # Errors
    /// Returns the error of the first reading.
    pub fn new<E: Display>(
        what: &'static str,
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let stamps = FileStamps::of(&paths);
        let last = Mutex::new((stamps, Arc::new(read()?)));
        let read = Box::new(move || read().map_err(|error| error.to_string()));
        Ok(Self { what, paths, read, last })
    }

    /// A value without files, which never changes.
    pub fn fixed(what: &'static str, value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let last = Mutex::new((FileStamps(Vec::new()), Arc::new(value.clone())));
        Self { what, paths: Vec::new(), read: Box::new(move || Ok(value.clone())), last }
    }

    /// The value. It is another one only after the files have changed and could be read.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Before reading: a change meanwhile is then noticed the next time.
        let stamps = FileStamps::of(&self.paths);
        if last.0 != stamps {
            last.0 = stamps;
            let what = self.what;
            match (self.read)() {
                Ok(value) => {
                    info!("{what} changed, and were read again");
                    last.1 = Arc::new(value);
                }
                Err(error) => {
                    let error = error.replace('\n', "; ");
                    warn!("{what} changed; the ones before remain in use: {error}");
                }
            }
        }
        Arc::clone(&last.1)
    }
}

/// Without the value, which can be secret.
impl<T> Debug for Rotating<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rotating").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The state of some files: another one after any of them was replaced or written.
#[derive(Debug, PartialEq, Eq)]
struct FileStamps(Vec<Option<Stamp>>);

/// Device, inode, length, and times of the last changes of contents and inode; `None` if there is no file.
type Stamp = (u64, u64, u64, [i64; 4]);

impl FileStamps {
    fn of(paths: &[PathBuf]) -> Self {
        let stamp = |path| {
            let file = fs::metadata(path).ok()?;
            let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
            Some((file.dev(), file.ino(), file.len(), times))
        };
        Self(paths.iter().map(stamp).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Kubernetes replaces a link to the directory of a secret's files.
    #[test]
    fn value_follows_files_and_links_and_survives_broken_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for version in ["1", "2"] {
            fs::create_dir(path(version)).unwrap();
            fs::write(path(version).join("token"), format!("token {version}")).unwrap();
        }
        symlink("1", path("data")).unwrap();
        let token = path("data").join("token");
        let file = token.clone();
        let read = move || {
            fs::read_to_string(&file).map(|text| text.len() + usize::from(text.ends_with('2')))
        };
        let value = Rotating::new("tokens", vec![token.clone()], read).unwrap();
        let first = value.current();
        assert_eq!(*first, 7);
        assert!(Arc::ptr_eq(&value.current(), &first), "read once");
        symlink("2", path("new")).unwrap();
        fs::rename(path("new"), path("data")).unwrap();
        assert_eq!(*value.current(), 8);
        fs::write(&token, "longer").unwrap();
        assert_eq!(*value.current(), 6);
        let before = value.current();
        fs::remove_file(&token).unwrap();
        assert!(Arc::ptr_eq(&value.current(), &before), "kept");
        fs::write(&token, "back").unwrap();
        assert_eq!(*value.current(), 4);
    }
}
