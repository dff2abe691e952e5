//! `/status`: the report so far. The main loop makes it when a client asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a report is given to all clients at least.
const MIN_AGE: Duration = Duration::from_secs(1);

/// How many times as long as it takes to make a report: at most a twentieth of the main loop's time goes into it.
const AGE_FACTOR: u32 = 20;

/// How long a client waits for the main loop.
const PATIENCE: Duration = Duration::from_secs(30);

/// The last report, and whether a client waits for a newer one.
#[derive(Debug)]
pub struct StatusBoard {
    is_wanted: AtomicBool,
    report: watch::Sender<Option<StatusReport>>,
}

/// A report, or that there is none yet.
#[derive(Clone, Debug)]
struct StatusReport {
    json: Option<Bytes>,
    made: Instant,
    /// How long it is given to clients.
    age: Duration,
}

impl Default for StatusBoard {
    fn default() -> Self {
        Self { is_wanted: AtomicBool::new(false), report: watch::Sender::new(None) }
    }
}

impl StatusBoard {
    /// Makes a report, if a client waits for one: JSON, or `None` if there is nothing to report yet.
    pub fn answer(&self, make: impl FnOnce() -> Option<Vec<u8>>) {
        if !self.is_wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        let json = make().map(Bytes::from);
        let (made, took) = (Instant::now(), began.elapsed());
        let age = MIN_AGE.max(took.saturating_mul(AGE_FACTOR));
        self.report.send_replace(Some(StatusReport { json, made, age }));
    }

    /// The report. It is up to a second old, or older if it takes long to make. `None` if there is none yet.
    pub(super) async fn report(&self) -> Option<Bytes> {
        let mut reports = self.report.subscribe();
        let is_fresh = |it: &StatusReport| it.made.elapsed() < it.age;
        if let Some(fresh) = reports.borrow_and_update().as_ref().filter(|it| is_fresh(it)) {
            return fresh.json.clone();
        }
        self.is_wanted.store(true, Ordering::Relaxed);
        timeout(PATIENCE, reports.changed()).await.ok()?.ok()?;
        reports.borrow().as_ref().and_then(|it| it.json.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::runtime::Builder;

    use super::*;

    /// Guarantee: nothing is made unasked, all clients within a second share a report, and one that takes long is kept
    /// for longer.
    #[test]
    fn report_is_made_once_for_all_clients_that_ask() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (board, made) = (StatusBoard::default(), Cell::new(0));
        let step = |takes| {
            board.answer(|| {
                std::thread::sleep(takes);
                made.set(made.get() + 1);
                Some(vec![made.get()])
            });
        };
        step(Duration::ZERO);
        assert_eq!(made.get(), 0, "nobody asked");
        let ask = async || {
            let stepping = async {
                tokio::task::yield_now().await;
                step(Duration::from_millis(100));
            };
            tokio::join!(board.report(), board.report(), stepping)
        };
        let (first, second, ()) = runtime.block_on(ask());
        assert_eq!(
            (first, second),
            (Some(Bytes::from_static(&[1])), Some(Bytes::from_static(&[1])))
        );
        let age = board.report.borrow().as_ref().unwrap().age;
        assert!(age >= Duration::from_secs(2), "{age:?}");
        runtime.block_on(ask());
        assert_eq!(made.get(), 1);
    }
}
