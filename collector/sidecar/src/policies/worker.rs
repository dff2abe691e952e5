//! The thread that evaluates policies during a live run, so that a slow policy never delays readings.
//!
//! One window is evaluated while one is queued; further windows are dropped. Must not depend on how
//! often windows are built.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use phasemeter_rules::window::Window;

use super::{PolicyManager, PolicyResults};

/// Evaluates windows until it is dropped or finished.
#[derive(Debug)]
pub struct Worker {
    windows: SyncSender<Option<Window>>,
    results: Receiver<PolicyResults>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(policies: Arc<PolicyManager>) -> io::Result<Self> {
        let (windows, submitted) = mpsc::sync_channel::<Option<Window>>(1);
        let (sender, results) = mpsc::channel();
        let evaluate = move || {
            for window in submitted {
                if sender.send(policies.evaluate(window.as_ref())).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("policies".to_owned()).spawn(evaluate)?;
        Ok(Self { windows, results })
    }

    /// Queues a window without blocking. Returns false if the queue is full.
    pub fn submit(&self, window: Window) -> bool {
        self.windows.try_send(Some(window)).is_ok()
    }

    /// Results since the last call, oldest first.
    pub fn results(&self) -> impl Iterator<Item = PolicyResults> {
        self.results.try_iter()
    }

    /// Submits the last window, if any, and waits for its results, for at most the sum of the
    /// deadlines. `None` if the thread has ended.
    #[must_use]
    pub fn finish(self, last: Option<Window>) -> Option<PolicyResults> {
        let Self { windows, results } = self;
        windows.send(last).ok()?;
        drop(windows);
        results.iter().last()
    }
}
