//! Advice while a run goes on: a window now and then, the last at its end.
//!
//! This room must not know what a window is made from, nor what is said of it.

use std::time::{Duration, Instant};

use phasemeter_rules::window::Window;
use tracing::warn;

use super::dump::Dump;
use crate::advice::{Verdicts, Worker};

/// Shows windows to the policies, where there are any, and writes them down, where that is asked
/// for.
pub(super) struct Advisor {
    worker: Option<Worker>,
    dump: Option<Dump>,
    every: Duration,
    next: Instant,
}

impl Advisor {
    /// The first window is shown `every` from now.
    pub(super) fn new(worker: Option<Worker>, dump: Option<Dump>, every: Duration) -> Self {
        Self { worker, dump, every, next: Instant::now() + every }
    }

    /// What was said since the last time. Where a window is due, it is made and shown; one that
    /// policies have no time for is left out.
    pub(super) fn step(&mut self, window: impl FnOnce() -> Option<Window>) -> Option<Verdicts> {
        let now = Instant::now();
        if self.next <= now {
            self.next = now + self.every;
            if let Some(window) = window() {
                self.show(window);
            }
        }
        self.worker.as_ref()?.verdicts().last()
    }

    /// What is said of the last window.
    pub(super) fn finish(mut self, last: Option<Window>) -> Verdicts {
        last.iter().for_each(|window| self.write_down(window));
        self.worker.and_then(|worker| worker.finish(last)).unwrap_or_default()
    }

    fn show(&mut self, window: Window) {
        self.write_down(&window);
        if self.worker.as_ref().is_some_and(|worker| !worker.show(window)) {
            warn!("policies are too slow: a window was not judged");
        }
    }

    /// What cannot be written is said once, and costs the run nothing.
    fn write_down(&mut self, window: &Window) {
        let written = self.dump.as_mut().map_or(Ok(()), |dump| dump.write(window));
        if let Err(failure) = written {
            warn!("windows are not written down any more: {}", failure.in_one_line());
            self.dump = None;
        }
    }
}
