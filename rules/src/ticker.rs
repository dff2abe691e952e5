//! The door that runs pass through, and the clock behind it.
//!
//! As many runs at a time as there are slots; while any is inside, one thread moves the epoch that
//! deadlines are counted in. With nobody inside it sleeps: an idle sidecar has no tick. This room
//! must not know what a run does.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use wasmtime::EngineWeak;

use crate::limits::TICK;

/// Runs at a time. A sidecar judges one window after another; a second slot is for the trial of
/// the next generation, the rest for callers that are many.
pub(crate) const SLOTS: usize = 4;

/// The door. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    /// Runs that wait for a slot.
    waiting: usize,
    /// Since when the thread ticks; `None` while it sleeps until someone enters.
    awake: Option<Instant>,
    /// How often it did since then.
    ticks: u64,
    closed: bool,
}

impl State {
    /// The ticks that are due by now: a sleep is longer than it was asked to be, and those that it
    /// missed are made up for all at once.
    fn due(&self) -> u64 {
        let awake = self.awake.map(|since| since.elapsed().as_nanos() / TICK.as_nanos());
        awake.map_or(self.ticks, |due| u64::try_from(due).unwrap_or(u64::MAX).max(self.ticks))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is a few counters, whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticker {
    pub(crate) fn start(engine: EngineWeak) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("policy-ticker".to_owned())
            .spawn(move || tick(&theirs, &engine))?;
        Ok(Self { shared })
    }

    /// Waits for a slot, and keeps it until the guard is dropped.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let mut state = self.shared.lock();
        while state.inside == SLOTS {
            state.waiting += 1;
            state = self.shared.wait(state);
            state.waiting -= 1;
        }
        state.inside += 1;
        if state.awake.is_none() {
            self.shared.changed.notify_all();
        }
        Inside { shared: &self.shared, behind: state.due() - state.ticks }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

/// A run that is inside.
pub(crate) struct Inside<'a> {
    shared: &'a Shared,
    /// Ticks from before it entered that are still to come: none of its time.
    pub(crate) behind: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.inside -= 1;
        if state.waiting > 0 {
            self.shared.changed.notify_all();
        }
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    let mut state = shared.lock();
    loop {
        if state.inside == 0 {
            (state.awake, state.ticks) = (None, 0);
        }
        while state.inside == 0 && !state.closed {
            state = shared.wait(state);
        }
        if state.closed {
            return;
        }
        state.awake.get_or_insert_with(Instant::now);
        drop(state);
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        // Nobody enters between these: what is behind then is known.
        state = shared.lock();
        let due = state.due();
        for _ in state.ticks..due {
            engine.increment_epoch();
        }
        state.ticks = due;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ticks_that_were_missed_before_a_run_are_none_of_its_time() {
        let ticker = Ticker { shared: Arc::default() };
        assert_eq!(ticker.enter().behind, 0, "it sleeps");
        let mut state = ticker.shared.lock();
        (state.awake, state.ticks) = (Instant::now().checked_sub(Duration::from_millis(50)), 10);
        drop(state);
        assert!(ticker.enter().behind >= 40, "50 ms are over, and 10 ticks are told");
    }
}
