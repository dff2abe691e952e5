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
    /// Whether the thread sleeps until someone enters.
    parked: bool,
    closed: bool,
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
        if state.parked {
            self.shared.changed.notify_all();
        }
        Inside(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

/// A run that is inside.
pub(crate) struct Inside<'a>(&'a Shared);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        if state.waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    let mut awake = Instant::now();
    let mut ticks = 0_u128;
    loop {
        let mut state = shared.lock();
        if state.inside == 0 && !state.closed {
            state.parked = true;
            while state.inside == 0 && !state.closed {
                state = shared.wait(state);
            }
            state.parked = false;
            (awake, ticks) = (Instant::now(), 0);
        }
        if state.closed {
            return;
        }
        drop(state);
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        // A sleep is longer than it was asked to be; the ticks it missed are made up for.
        let due = awake.elapsed().as_nanos() / TICK.as_nanos();
        for _ in ticks..due {
            engine.increment_epoch();
        }
        ticks = due;
    }
}
