//! The thread that evaluates policies during a live run, so that a slow policy never delays readings.
//!
//! One window is evaluated while one is queued; further windows are dropped.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use phasemeter_rules::window::Window;

use super::{PolicyManager, PolicyResults};

/// Evaluates windows until it is dropped or finished.
pub struct Worker {
    policies: Arc<PolicyManager>,
    /// `None` until it can be started.
    thread: Option<Thread>,
}

/// A running thread.
struct Thread {
    windows: SyncSender<Option<Window>>,
    results: Receiver<PolicyResults>,
}

/// Why a window is not evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Skipped {
    /// One is being evaluated, and one waits.
    #[error("policies are too slow")]
    Busy,
    /// The thread cannot be started; that is tried again with the next window.
    #[error("cannot start the policy thread: {0}")]
    Thread(#[from] io::Error),
}

impl Worker {
    /// Evaluates on a thread, which starts with the first window.
    #[must_use]
    pub const fn new(policies: Arc<PolicyManager>) -> Self {
        Self { policies, thread: None }
    }

    /// Queues a window without blocking.
    ///
    /// # Errors
    /// Returns an error if the window is not evaluated.
    pub fn submit(&mut self, window: Window) -> Result<(), Skipped> {
        if self.thread.is_none() {
            self.thread = Some(Thread::start(Arc::clone(&self.policies))?);
        }
        let thread = self.thread.as_ref();
        let queued = thread.is_some_and(|it| it.windows.try_send(Some(window)).is_ok());
        if queued { Ok(()) } else { Err(Skipped::Busy) }
    }

    /// Results since the last call, oldest first.
    pub fn results(&self) -> impl Iterator<Item = PolicyResults> {
        self.thread.iter().flat_map(|thread| thread.results.try_iter())
    }

    /// Evaluates the last window, if any, after those that are queued: for at most the sum of the
    /// deadlines. `None` if the thread has ended.
    #[must_use]
    pub fn finish(self, last: Option<Window>) -> Option<PolicyResults> {
        let Some(Thread { windows, results }) = self.thread else {
            return Some(self.policies.evaluate(last.as_ref()));
        };
        windows.send(last).ok()?;
        drop(windows);
        results.iter().last()
    }
}

impl Thread {
    fn start(policies: Arc<PolicyManager>) -> io::Result<Self> {
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
}
