//! Whether this process works, as its main loop states.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::status::StatusBoard;

/// A main loop that has not advanced for this long is stalled. It advances several times a second; a window of
/// slow policies takes seconds.
pub(super) const HUNG_AFTER: Duration = Duration::from_secs(60);

/// What probes ask for.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    /// Milliseconds from the start to the last step of the main loop.
    last_step: AtomicU64,
    is_ready: AtomicBool,
    /// The report so far.
    status: StatusBoard,
}

impl Default for Health {
    /// Live, and not ready.
    fn default() -> Self {
        let (last_step, is_ready) = (AtomicU64::new(0), AtomicBool::new(false));
        let status = StatusBoard::default();
        Self { started: Instant::now(), last_step, is_ready, status }
    }
}

impl Health {
    /// Where clients ask for the report so far.
    #[must_use]
    pub const fn status(&self) -> &StatusBoard {
        &self.status
    }

    /// Records a step of the main loop, from which on this process is ready.
    pub fn step(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_step.store(now, Ordering::Relaxed);
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// Records that this process is about to end, and not ready.
    pub fn end(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_live(&self) -> bool {
        let last = Duration::from_millis(self.last_step.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last) < HUNG_AFTER
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && self.is_live()
    }
}
