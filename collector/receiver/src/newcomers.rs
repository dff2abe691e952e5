//! Connections of which it is not known yet whether their clients may send: they have a share of the slots, and
//! the oldest is closed for a new one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The connections whose clients are unknown.
#[derive(Debug)]
pub(super) struct Newcomers {
    limit: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By number, so the oldest first.
    closing: BTreeMap<u64, Arc<Notify>>,
    next: u64,
}

/// A connection. It is a newcomer until its client is known.
#[derive(Debug)]
pub(super) struct Newcomer {
    all: Arc<Newcomers>,
    number: u64,
    closing: Arc<Notify>,
    is_known: AtomicBool,
}

impl Newcomers {
    pub(super) const fn new(limit: usize) -> Self {
        let waiting = Waiting { closing: BTreeMap::new(), next: 0 };
        Self { limit, waiting: Mutex::new(waiting) }
    }

    /// Adds a connection. If there are too many, the oldest is to be closed.
    pub(super) fn add(self: &Arc<Self>) -> Newcomer {
        let closing = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = waiting.next;
        waiting.next += 1;
        if waiting.closing.len() >= self.limit
            && let Some((_, oldest)) = waiting.closing.pop_first()
        {
            oldest.notify_one();
        }
        waiting.closing.insert(number, Arc::clone(&closing));
        Newcomer { all: Arc::clone(self), number, closing, is_known: AtomicBool::new(false) }
    }

    fn remove(&self, number: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closing.remove(&number);
    }
}

impl Newcomer {
    /// Its client may send: it no longer is a newcomer.
    pub(super) fn admit(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            self.all.remove(self.number);
        }
    }

    /// Whether its client may send.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Waits until it is to be closed.
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.all.remove(self.number);
    }
}
