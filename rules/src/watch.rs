//! Polls a directory and reports when its contents have changed and come to rest.
//!
//! Polling instead of inotify: comparing names, times and sizes of a few files once a second costs
//! next to nothing and works on every file system, including the symbolic links of a mounted
//! `ConfigMap`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A thread that polls a directory until this is dropped. Dropping does not wait for a callback in
/// progress, which may compile for a minute.
#[derive(Debug)]
pub struct PollWatcher {
    _stop: mpsc::Sender<()>,
}

/// A directory's contents by their metadata: path, inode, size, and modification time of each file.
type Listing = Vec<(PathBuf, u64, u64, i64, i64)>;

fn list(dir: &Path) -> io::Result<Listing> {
    let mut listing = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // Follows links: the file at the end counts. A removed file shows in the next listing.
        if let Ok(metadata) = fs::metadata(&path) {
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            listing.push((path, metadata.ino(), metadata.size(), modified.0, modified.1));
        }
    }
    listing.sort();
    Ok(listing)
}

/// The listings that the next one is compared with; `None` for a missing directory.
struct Listings {
    reported: Option<Listing>,
    last: Option<Listing>,
}

impl Listings {
    fn new(first: Option<Listing>) -> Self {
        Self { reported: first.clone(), last: first }
    }

    /// Adds the next listing, and returns whether it is a change to report.
    fn push(&mut self, now: Option<Listing>) -> bool {
        let changed = now.is_some() && now != self.reported && now == self.last;
        if changed {
            self.reported.clone_from(&now);
        }
        self.last = now;
        changed
    }
}

impl PollWatcher {
    /// Lists the directory every `interval`, and calls `on_change` if the listing differs from the
    /// one last reported (at first, the one at the start) but equals the previous one: a file that
    /// is still being written is not reported yet. A missing directory counts as unchanged.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(
        dir: PathBuf,
        interval: Duration,
        mut on_change: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let mut listings = Listings::new(list(&dir).ok());
        let (stop, stopped) = mpsc::channel();
        let poll = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                // Before the files are read: a change during that is reported next time.
                if listings.push(list(&dir).ok()) {
                    on_change();
                }
            }
        };
        thread::Builder::new().name("policy-watch".to_owned()).spawn(poll)?;
        Ok(Self { _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listings_at_rest_are_reported() {
        let listing = |size| Some(vec![(PathBuf::from("a.wasm"), 1, size, 0, 0)]);
        let mut listings = Listings::new(listing(1));
        let pushed = [
            (listing(1), false),
            // It grows, and rests from the third on.
            (listing(2), false),
            (listing(3), false),
            (listing(3), true),
            (listing(3), false),
            // The directory is away for a moment.
            (None, false),
            (None, false),
            (listing(3), false),
            (listing(3), false),
            // A change that is undone before it rests.
            (listing(4), false),
            (listing(3), false),
            (listing(3), false),
        ];
        for (at, (listing, reported)) in pushed.into_iter().enumerate() {
            assert_eq!(listings.push(listing), reported, "listing {at}");
        }
    }

    #[test]
    fn change_is_reported_once_at_rest() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("policies");
        fs::create_dir(&dir).unwrap();
        let (sender, changes) = mpsc::channel();
        let on_change = move || sender.send(()).unwrap();
        let watcher = PollWatcher::start(dir.clone(), Duration::from_millis(5), on_change).unwrap();
        assert_eq!(changes.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        // Moved in whole: on a busy machine an empty file might rest long enough to be reported.
        fs::write(home.path().join("a.wasm"), "x").unwrap();
        fs::rename(home.path().join("a.wasm"), dir.join("a.wasm")).unwrap();
        changes.recv_timeout(Duration::from_secs(10)).unwrap();
        fs::remove_file(dir.join("a.wasm")).unwrap();
        changes.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(watcher);
        assert_eq!(changes.recv(), Err(mpsc::RecvError), "nothing is reported after the drop");
    }
}
