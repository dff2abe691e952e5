//! The thread on which policies judge the windows of a live run: however slow a guest is, no
//! reading waits for it.
//!
//! One window is judged, one waits; a third is not taken. This room must not know how often windows
//! are made.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use phasemeter_rules::window::Window;

use super::{PolicyManager, PolicyResults};

/// Judges windows until it is dropped or finished.
#[derive(Debug)]
pub struct Worker {
    windows: SyncSender<Option<Window>>,
    results: Receiver<PolicyResults>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn start(policies: Arc<PolicyManager>) -> io::Result<Self> {
        let (windows, shown) = mpsc::sync_channel::<Option<Window>>(1);
        let (said, results) = mpsc::channel();
        let evaluate = move || {
            for window in shown {
                if said.send(policies.evaluate(window.as_ref())).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("advice".to_owned()).spawn(evaluate)?;
        Ok(Self { windows, results })
    }

    /// Hands a window over, and never waits; whether there was room for it.
    pub fn submit(&self, window: Window) -> bool {
        self.windows.try_send(Some(window)).is_ok()
    }

    /// Verdicts that came since the last call, oldest first.
    pub fn results(&self) -> impl Iterator<Item = PolicyResults> {
        self.results.try_iter()
    }

    /// Hands the last window over, where there is one, and waits for what is said of it: as long as the policies may
    /// take together. `None` where the thread is gone.
    #[must_use]
    pub fn finish(self, last: Option<Window>) -> Option<PolicyResults> {
        let Self { windows, results } = self;
        windows.send(last).ok()?;
        drop(windows);
        results.iter().last()
    }
}
