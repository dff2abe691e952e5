//! Watches a folder: says when what is in it has changed, and is at rest again.
//!
//! By asking, not by being told: names, times and sizes of a few files once a second cost nothing,
//! and work on every file system, also through the links of a mounted `ConfigMap`. This room must
//! not know what the files are.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A thread that watches, until this is dropped. A call in progress goes on to its end, and nobody
/// waits for it: it may compile for a minute.
#[derive(Debug)]
pub struct Watch {
    _stop: mpsc::Sender<()>,
}

/// What is in a folder, as far as it shows without reading it: name, inode, size and time of each.
type Look = Vec<(PathBuf, u64, u64, i64, i64)>;

fn look(folder: &Path) -> io::Result<Look> {
    let mut look = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Follows links: what counts is the file at the end. One that is gone shows next time.
        if let Ok(about) = fs::metadata(&path) {
            look.push((path, about.ino(), about.size(), about.mtime(), about.mtime_nsec()));
        }
    }
    look.sort();
    Ok(look)
}

impl Watch {
    /// Looks at the folder every `interval`, and calls `changed` when it looks different from the
    /// last call, or from now, and the same as one interval before: a file that is still being
    /// written is left alone. A folder that is not there has not changed.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(
        folder: PathBuf,
        interval: Duration,
        mut changed: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let mut told = look(&folder).ok();
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            let mut last = told.clone();
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                let now = look(&folder).ok();
                if now.is_some() && now != told && now == last {
                    // Taken before the files are read: a change during that is seen next time.
                    told.clone_from(&now);
                    changed();
                }
                last = now;
            }
        };
        thread::Builder::new().name("policy-watch".to_owned()).spawn(watch)?;
        Ok(Self { _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_it_rests() {
        let folder = tempfile::tempdir().unwrap();
        let (told, tells) = mpsc::channel();
        let changed = move || told.send(()).unwrap();
        let watch =
            Watch::start(folder.path().to_owned(), Duration::from_millis(5), changed).unwrap();
        assert_eq!(tells.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        fs::write(folder.path().join("a.wasm"), "x").unwrap();
        tells.recv_timeout(Duration::from_secs(10)).unwrap();
        fs::remove_file(folder.path().join("a.wasm")).unwrap();
        tells.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(watch);
        assert_eq!(tells.recv(), Err(mpsc::RecvError), "nothing is told after it is over");
    }
}
